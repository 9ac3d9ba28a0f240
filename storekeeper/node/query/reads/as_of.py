"""Reads as of a time, from the store's history, which any node reads alike.

One thread reads, and few requests wait for it: a history is in files, and a node is for the present. So what needs a
large fold is refused: it is SQL's. A versioned store has its own past: see `versions`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from storekeeper.clock import Clock
from storekeeper.errors import StorageError, StoreUnavailableError
from storekeeper.locations import Location
from storekeeper.names import store_of
from storekeeper.node.query.answers.answer import (
    COMPLETE,
    ROLE,
    SERVED_BY,
    NoHistoryError,
    TooManyScansError,
)
from storekeeper.node.query.reads.pages import KeyRange, PageLimits, Row, RowPage, Scan, take_page
from storekeeper.node.replicas.ranked_index import IndexBudget, RankedIndex
from storekeeper.snapshots.as_of import changes_between_keys

if TYPE_CHECKING:
    # They load the reader of Delta tables, which is an extra.
    from storekeeper.snapshots.history_reads import StoreHistory
    from storekeeper.snapshots.key_changes import Change

T = TypeVar("T")

AS_OF = "as_of"
ROLE_HISTORY = "history"
_CHECK_EVERY_S = 5.0
_MOST_WAITING = 16
_MOST_CHANGES = 250_000
"""The most changes that a request folds, unless it is about one key."""
_AS_FOLDED = IndexBudget(1 << 62)
"""The memory of a ranking of the past: its fold has bounded it."""
_COLUMNS = ("_partition", "_key", "_batch_ms", "_value")


PartitionOf = Callable[[bytes], int]
"""The partition where nodes look for the row of a row key."""


@dataclass(frozen=True, slots=True)
class _Held:
    """An opened history, and when it was opened."""

    history: StoreHistory
    opened_at_s: float


class PastReads:
    """Rows as of a time. Belongs to one event loop.

    Args:
        node: this node's name.
        folder: the folder of the Delta tables.
        clock: for the age of what is open.
        shown: how a store's value is shown.
        most_waiting: how many requests may be under way at once.
    """

    def __init__(
        self,
        node: str,
        folder: Location,
        clock: Clock,
        *,
        shown: Callable[[str, bytes], bytes] = lambda _, value: value,
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        self._node = node
        self._folder = folder
        self._clock = clock
        self.shown = shown
        self._free = most_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="as-of")
        self._held: dict[str, _Held] = {}

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Where an answer comes from."""
        return [(SERVED_BY, self._node.encode()), (ROLE, ROLE_HISTORY.encode()), (COMPLETE, b"true")]

    async def row(self, store: str, key: bytes, at_ms: int, partition: int) -> bytes | None:
        """The value of a row at a time; None if there was none.

        Args:
            store: the store.
            key: the row's key.
            at_ms: the time.
            partition: the one whose row counts if several partitions have rows of one key.

        Raises:
            NoHistoryError: the node has no history of the store.
            NotExactError: the rows at that time are not known.
            TooManyScansError: too many such requests are under way.
            StoreUnavailableError: the history can't be read now.
        """
        scan = Scan(store, KeyRange.between(key, key))
        page = await self.page(scan, PageLimits(1, 1), at_ms, lambda _: partition, of_one_key=True)
        return page.rows[0][1] if page.rows else None

    async def page(
        self, scan: Scan, limits: PageLimits, at_ms: int, partition_of: PartitionOf, *, of_one_key: bool
    ) -> RowPage:
        """The first rows of a scan at a time.

        Args:
            scan: the scan.
            limits: where the page ends.
            at_ms: the time.
            partition_of: whose row counts if several partitions have rows of one key.
            of_one_key: whether the scan is within the rows of one key.

        Raises:
            InvalidArgumentError: the rows are too much for one request, and not of one key.
            NoHistoryError, NotExactError, TooManyScansError, StoreUnavailableError: as `row`.
        """
        most = None if of_one_key else _MOST_CHANGES
        return await self._run(self._page, scan, limits, at_ms, partition_of, most)

    async def ranking(self, store: str, score_field: str, at_ms: int, partition_of: PartitionOf) -> RankedIndex:
        """The order of a store's rows at a time.

        Args:
            store: the store.
            score_field: the field of the values that has the score.
            at_ms: the time.
            partition_of: whose row counts if several partitions have rows of one key.

        Raises:
            InvalidArgumentError: the rows are too much for one request.
            NoHistoryError, NotExactError, TooManyScansError, StoreUnavailableError: as `row`.
        """
        return await self._run(self._ranking, store_of(store), score_field, at_ms, partition_of)

    async def changes(self, store: str, key: bytes, from_ms: int, to_ms: int, most: int) -> list[Change]:
        """The newest changes of a key's rows in a time, both ends included, the newest first. Raises as `row` does."""
        return await self._run(self._changes, store_of(store), key, from_ms, to_ms, most)

    async def _run(self, read: Callable[..., T], *arguments: object) -> T:
        """Runs it in the thread."""
        if not self._free:
            raise TooManyScansError("this node answers as many requests for the past as it may: ask again in a moment")
        self._free -= 1
        reading = asyncio.get_running_loop().run_in_executor(self._thread, read, *arguments)
        reading.add_done_callback(self._ended)
        # A thread can't be ended: it keeps its place if the request stops waiting.
        return await asyncio.shield(reading)

    def close(self) -> None:
        """Starts no more reads."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ended(self, reading: asyncio.Future[Any]) -> None:
        self._free += 1
        if not reading.cancelled():
            reading.exception()  # taken, also if nobody waits any more

    def _page(self, scan: Scan, limits: PageLimits, at_ms: int, partition_of: PartitionOf, most: int | None) -> RowPage:
        accepts, keys = None if scan.times is None else scan.times.accepts, scan.keys
        named = [] if keys == KeyRange() else [changes_between_keys(keys.start or b"", keys.stop)]
        order = f"ORDER BY _key {'DESC' if scan.reverse else 'ASC'}"
        with self._readable():
            history = self._history(store_of(scan.store))
            # A key may have a row in each partition, and those of the last one may be cut off.
            wanted = (limits.rows + 1 if accepts is None else limits.examined) + history.partition_count
            rows: list[Row] = []
            is_cut = True
            while is_cut and not rows:
                found = history.folded(_COLUMNS, at_ms, *named, rest=f"{order} LIMIT {wanted}", most=most)
                rows, is_cut = one_of_each(found, partition_of, reverse=scan.reverse), len(found) == wanted
                if is_cut:
                    rows.pop()
                wanted *= 2
        page = take_page(iter(rows), limits, accepts)
        return page if page.more or not is_cut else RowPage(page.rows, rows[-1][0])

    def _ranking(self, store: str, score_field: str, at_ms: int, partition_of: PartitionOf) -> RankedIndex:
        with self._readable():
            found = self._history(store).folded(_COLUMNS, at_ms, most=_MOST_CHANGES)
        index = RankedIndex(score_field, _AS_FOLDED, partial(self.shown, store))
        index.apply(one_of_each(found, partition_of))
        return index

    def _changes(self, store: str, key: bytes, from_ms: int, to_ms: int, most: int) -> list[Change]:
        with self._readable():
            reader = importlib.import_module("storekeeper.snapshots.key_changes")
            found: list[Change] = reader.changes_of_key(
                self._history(store), key, most=most, from_ms=from_ms, to_ms=to_ms
            )
            return found

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Says why tables can't be read here."""
        try:
            yield
        except ImportError as error:
            msg = f"node {self._node} can't read tables: install storekeeper[sql] there"
            raise StoreUnavailableError(msg) from error
        except StorageError as error:
            raise StoreUnavailableError(str(error)) from error

    def _history(self, store: str) -> StoreHistory:
        held, now_s = self._held.get(store), self._clock.monotonic_s()
        if held is None or now_s - held.opened_at_s >= _CHECK_EVERY_S:
            # The reader of Delta tables takes a second to load, and most nodes never need it.
            reads = importlib.import_module("storekeeper.snapshots.history_reads")
            history = reads.StoreHistory.beside(self._folder / store)
            if history is None:
                msg = (
                    f"node {self._node} finds no history of store {store} in {self._folder}: no snapshot was taken yet"
                )
                raise NoHistoryError(msg)
            held = self._held[store] = _Held(history, now_s)
        return held.history


def one_of_each(
    rows: Iterable[dict[str, Any]], partition_of: PartitionOf, *, reverse: bool = False
) -> list[tuple[bytes, bytes]]:
    """Keys and values of rows, in the order of the keys.

    If several partitions have a row of a key, that of its own partition counts, else the newest.
    """

    def place(row: dict[str, Any]) -> tuple[bool, int, int]:
        return row["_partition"] == partition_of(row["_key"]), row["_batch_ms"], row["_partition"]

    kept: dict[bytes, dict[str, Any]] = {}
    for row in rows:
        other = kept.setdefault(row["_key"], row)
        if other is not row and place(row) > place(other):
            kept[row["_key"]] = row
    return [(key, kept[key]["_value"]) for key in sorted(kept, reverse=reverse)]
