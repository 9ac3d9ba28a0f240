"""The rows of one replica ordered by score: top rows and a key's place, without a scan.

The order is highest score first, then key as bytes. It is kept as sorted blocks of a few hundred rows. A batch copies
the blocks that it changes and then replaces the old list of blocks by the new one, in one assignment. So readers hold
a view that never changes, see all of a batch or nothing of it, and never wait.

Memory: about 400 bytes a row besides its key and value, which are kept too, so that an answer's value and score belong
together. All indexes of a node share one memory budget. An index that would exceed it drops all its rows and stops
answering; its store still answers. So does an index that fails: a ranking is complete, or there is none.

A value by a schema of a registry is ranked as the JSON that it is shown as. If its schema isn't known yet, its row
waits, and the ranking answers nothing until a request has found the schema.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

import orjson
import structlog

from storekeeper.errors import RetriableError, StoreUnavailableError

log = structlog.get_logger(__name__)

Row = tuple[bytes, bytes | None]
"""A key and its new value, None where the row was deleted."""
Score = int | Decimal
Entry = tuple[Score, bytes, bytes]
"""Negated score, key, value: ascending order is that of the ranking."""
Place = tuple[Score] | tuple[Score, bytes]
"""A place in the ranking: the beginning of an entry."""

_BLOCK_ROWS = 256
_ROW_BYTES = 400
_LONGEST_SCORE = 400
"""A number with more digits before or behind its point is not a score."""
_READS_WITHOUT_LOCK = 4
_DEEPEST = 100
"""A value that is nested deeper has no score, unless the score is a whole number."""


class IndexBudget:
    """The memory that the indexes of one node may use together. Safe from any thread."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """About how much is in use."""
        return self._used

    def take(self, size_bytes: int) -> bool:
        """Takes `size_bytes` more, or returns them if negative. False if that is too much; then nothing is taken."""
        with self._lock:
            if size_bytes > 0 and self._used + size_bytes > self.max_bytes:
                return False
            self._used += size_bytes
            return True


@dataclass(frozen=True, slots=True)
class RankedView:
    """The ranking at one moment. Never changes; safe from any thread.

    Attributes:
        unranked: rows without a numeric score, which are in the store and not in the ranking.
        waiting: rows whose values can't be read yet.
    """

    blocks: list[list[Entry]]
    lasts: list[Entry]
    rows: int
    unranked: int
    waiting: int = 0

    def __len__(self) -> int:
        return self.rows

    def above(self, score: Score) -> int:
        """How many rows have a strictly higher score."""
        return self.before((negated(score),))

    def before(self, place: Place) -> int:
        """How many rows come before a place."""
        number = bisect_left(self.lasts, place)
        if number == len(self.lasts):
            return self.rows
        return sum(map(len, self.blocks[:number])) + bisect_left(self.blocks[number], place)

    def behind(self, place: Place | None, lowest: Score | None = None) -> Iterator[Entry]:
        """Entries at or behind a place (None: from the top), down to the score `lowest`, inclusive."""
        last = None if lowest is None else negated(lowest)
        number = 0 if place is None else bisect_left(self.lasts, place)
        first = 0 if place is None or number == len(self.lasts) else bisect_left(self.blocks[number], place)
        for at in range(number, len(self.blocks)):
            for entry in islice(self.blocks[at], first if at == number else 0, None):
                if last is not None and entry[0] > last:
                    return
                yield entry

    def holds(self, entry: Entry) -> bool:
        """Whether exactly this entry is part of the view."""
        place = bisect_left(self.lasts, entry[:2])
        if place == len(self.lasts):
            return False
        block = self.blocks[place]
        at = bisect_left(block, entry[:2])
        return at < len(block) and block[at] is entry


_EMPTY = RankedView([], [], 0, 0)


def as_it_is(value: bytes) -> bytes:
    """A value that is stored as JSON."""
    return value


class RankedIndex:
    """The order by score of one replica's rows. One thread applies and clears, any thread reads.

    Args:
        score_field: the field of the rows' JSON that holds the score.
        budget: the memory of the node's indexes.
        shown: a stored value as JSON; raises a RetriableError if it can't be read yet.
    """

    def __init__(self, score_field: str, budget: IndexBudget, shown: Callable[[bytes], bytes] = as_it_is) -> None:
        self.score_field = score_field
        self._budget = budget
        self._shown = shown
        self._writing = threading.Lock()
        self._retrying = threading.Lock()
        self._waiting: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        self._view: RankedView | None = _EMPTY
        self._trouble: str | None = None
        self._whole = True
        self._entries: dict[bytes, Entry] = {}
        self._unranked: dict[bytes, int] = {}
        self._taken_bytes = 0

    def view(self) -> RankedView:
        """The current ranking.

        Raises:
            StoreUnavailableError: it is not complete: see `trouble`, or it is being built.
        """
        view = self._view
        if view is None or not self._whole:
            raise StoreUnavailableError(self._trouble or f"the ranking by {self.score_field} is being built: ask again")
        if view.waiting:
            self._read_waiting_soon()
            msg = f"the ranking by {self.score_field} waits for a schema of {view.waiting} rows: ask again"
            raise StoreUnavailableError(msg)
        return view

    @property
    def trouble(self) -> str | None:
        """Why the ranking can't answer, and what to do; None if it can."""
        return self._trouble

    @property
    def left_out_rows(self) -> int:
        """How many rows of the store have no score and so are not in the ranking."""
        return len(self._unranked)

    def find(self, key: bytes) -> tuple[Entry | None, RankedView]:
        """The entry of a key, None if it isn't ranked, and the view that it is part of. Raises as `view` does."""
        for _ in range(_READS_WITHOUT_LOCK):
            view, entry = self.view(), self._entries.get(key)
            if view is self._view and self._whole and (entry is None or view.holds(entry)):
                return entry, view
        with self._lock:
            return self._entries.get(key), self.view()

    def apply(self, changes: Iterable[Row]) -> None:
        """Applies a batch, one change a key: readers see all of it at once. Never raises.

        A ranking that lacks rows would be wrong. So if it can't apply a batch, it drops all rows and sets `trouble`.
        """
        with self._writing:
            self._apply(changes)

    def _apply(self, changes: Iterable[Row]) -> None:
        if self._view is None:
            return
        try:
            whole = self._taken_in(self._view, changes)
        except Exception:
            log.exception("ranking_failed", score_field=self.score_field)
            self._give_up(f"the ranking by {self.score_field} failed: the node's log says why; start it again")
            return
        if not whole:
            self._give_up(
                f"the ranking by {self.score_field} has outgrown the node's {self._budget.max_bytes >> 20} MiB for "
                "rankings: raise `ranked_memory_mib` and start the node again"
            )

    def clear(self) -> None:
        """Drops everything, including `trouble`. It answers nothing until `built` is called."""
        with self._writing:
            self._whole = False
            self._forget(_EMPTY, None)

    def built(self) -> None:
        """Called when all rows of the store were applied: it answers from now on."""
        self._whole = True

    def _taken_in(self, view: RankedView, changes: Iterable[Row]) -> bool:
        """Applies a batch; False if there is no memory for it."""
        draft = _Draft(view)
        entries: dict[bytes, Entry | None] = {}
        unranked: dict[bytes, int | None] = {}
        waiting: dict[bytes, bytes | None] = {}
        size = 0
        for key, stored in changes:
            old, old_size = self._entries.get(key), self._unranked.get(key, 0)
            value, waits = self._read(stored)
            waiting[key] = stored if waits else None
            score = None if value is None or waits else score_of(value, self.score_field)
            if old is not None:
                draft.remove(old)
                old_size = _size(key, old[2])
            size -= old_size
            entries[key] = unranked[key] = None
            if value is not None and score is not None:
                entries[key] = entry = (negated(score), key, value)
                draft.add(entry)
                size += _size(key, value)
            elif value is not None:
                unranked[key] = kept = _size(key, value if waits else b"")
                size += kept
        if not self._budget.take(size):
            return False
        self._taken_bytes += size
        with self._lock:
            _update(self._entries, entries)
            _update(self._unranked, unranked)
            _update(self._waiting, waiting)
            self._view = draft.view(len(self._entries), len(self._unranked), len(self._waiting))
        return True

    def _read(self, stored: bytes | None) -> tuple[bytes | None, bool]:
        """The value as JSON and False; or the stored bytes and True if its schema isn't known yet."""
        try:
            return None if stored is None else self._shown(stored), False
        except RetriableError:
            return stored, True

    def _read_waiting_soon(self) -> None:
        """Reads the waiting rows again in a thread of its own, as the caller may be an event loop; one at a time."""
        if self._retrying.acquire(blocking=False):
            threading.Thread(target=self._read_waiting, name="ranking", daemon=True).start()

    def _read_waiting(self) -> None:
        try:
            with self._writing:
                self._apply(list(self._waiting.items()))
        finally:
            self._retrying.release()

    def _give_up(self, trouble: str) -> None:
        self._forget(None, trouble)
        log.warning("ranking_given_up", score_field=self.score_field, reason=trouble)

    def _forget(self, view: RankedView | None, trouble: str | None) -> None:
        with self._lock:
            self._trouble = trouble
            self._entries, self._unranked, self._waiting, self._view = {}, {}, {}, view
        self._budget.take(-self._taken_bytes)
        self._taken_bytes = 0


class _Draft:
    """The blocks of the next view; those of the last one are copied before they change."""

    def __init__(self, view: RankedView) -> None:
        self._blocks = view.blocks.copy()
        self._lasts = view.lasts.copy()
        self._own: set[int] = set()

    def view(self, rows: int, unranked: int, waiting: int) -> RankedView:
        return RankedView(self._blocks, self._lasts, rows, unranked, waiting)

    def remove(self, entry: Entry) -> None:
        place = bisect_left(self._lasts, entry[:2])
        block = self._owned(place)
        del block[bisect_left(block, entry[:2])]
        if block:
            self._lasts[place] = block[-1]
        else:
            self._own.discard(id(block))
            del self._blocks[place], self._lasts[place]

    def add(self, entry: Entry) -> None:
        if not self._blocks:
            self._insert(0, [entry])
            return
        place = min(bisect_left(self._lasts, entry[:2]), len(self._lasts) - 1)
        block = self._owned(place)
        block.insert(bisect_left(block, entry[:2]), entry)
        self._lasts[place] = block[-1]
        if len(block) > 2 * _BLOCK_ROWS:
            self._insert(place + 1, block[_BLOCK_ROWS:])
            del block[_BLOCK_ROWS:]
            self._lasts[place] = block[-1]

    def _owned(self, place: int) -> list[Entry]:
        block = self._blocks[place]
        if id(block) not in self._own:
            block = self._blocks[place] = block.copy()
            self._own.add(id(block))
        return block

    def _insert(self, place: int, block: list[Entry]) -> None:
        self._blocks.insert(place, block)
        self._lasts.insert(place, block[-1])
        self._own.add(id(block))


def score_of(value: bytes, field: str) -> Score | None:
    """The number in a field of a JSON object, exactly as it is written; None if there is no such number."""
    try:
        document: Any = orjson.loads(value)
        score = document.get(field) if type(document) is dict else None
        if type(score) is float:
            # Only the text is exact; rows whose scores are whole numbers never get here.
            score = None if _is_deep(document) else json.loads(value, parse_float=_decimal)[field]
    except ValueError:
        return None
    return score if is_score(score) else None


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return None


def _is_deep(value: Any) -> bool:
    """Whether a value is nested too deeply for `json`, which fails or not depending on the caller's stack depth."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [child for item in level for child in _children(item) if type(child) in (dict, list)]
        if not level:
            return False
    return True


def _children(item: Any) -> Iterable[Any]:
    return item.values() if type(item) is dict else item


def negated(score: Score) -> Score:
    """The number with the opposite sign; unlike the minus operator, this never rounds."""
    return score.copy_negate() if isinstance(score, Decimal) else -score


def is_score(score: object) -> bool:
    """Whether it can be a score: an integer or a decimal of at most a few hundred digits, never true or false."""
    if type(score) is int:
        return True
    if not isinstance(score, Decimal):
        return False
    sign_digits_exponent = score.as_tuple()
    exponent = sign_digits_exponent.exponent
    return isinstance(exponent, int) and len(sign_digits_exponent.digits) + abs(exponent) <= _LONGEST_SCORE


def _size(key: bytes, value: bytes) -> int:
    return _ROW_BYTES + len(key) + len(value)


def _update(table: dict[bytes, Any], changes: dict[bytes, Any]) -> None:
    for key, change in changes.items():
        if change is None:
            table.pop(key, None)
        else:
            table[key] = change
