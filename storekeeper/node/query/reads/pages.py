"""Scans page by page: a bounded run of rows in key order, from all partitions of a store, and the cursor behind it."""

from __future__ import annotations

import base64
import heapq
import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Self

from storekeeper.errors import InvalidArgumentError
from storekeeper.names import store_of
from storekeeper.node.query.answers.json_rows import RowTimes
from storekeeper.node.query.answers.origins import Origin
from storekeeper.node.query.forwarding import PeerRequest
from storekeeper.node.query.reads.cooperative_scheduler import Steps, finished
from storekeeper.node.query.reads.freshness_gate import Asked
from storekeeper.node.query.reads.gather import Gathered, Gatherer, asking, unpacked
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.security.cluster_secret import sign
from storekeeper.protocol.keys import decode_base64url
from storekeeper.serdes.keys.escaping import prefix_stop

Row = tuple[bytes, bytes]
by_key = itemgetter(0)
_ROWS_A_STEP = 32
_BYTES_A_STEP = 32 << 10


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of a request.

    Attributes:
        max_key_bytes: the longest key that a query may name.
        max_page_rows: the most rows of one page, and the most keys of one request.
        max_page_bytes: the most bytes of values in one page.
        max_examined_rows: the most rows that one page of a search by time looks at, on each node.
    """

    max_key_bytes: int = 65_536
    max_page_rows: int = 1000
    max_page_bytes: int = 4 << 20
    max_examined_rows: int = 20_000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys with `start <= key < stop`, compared as unsigned bytes; None leaves that end open."""

    start: bytes | None = None
    stop: bytes | None = None

    @classmethod
    def between(cls, lower: bytes | None, upper: bytes | None) -> Self:
        """Keys from `lower` to `upper`, both inclusive."""
        return cls(lower, None if upper is None else upper + b"\0")

    @classmethod
    def starting_with(cls, prefix: bytes) -> Self:
        """Keys that begin with `prefix`."""
        return cls(prefix, prefix_stop(prefix))


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of a store: the rows in a range of row keys, forwards or backwards, optionally filtered by time."""

    store: str
    keys: KeyRange = KeyRange()
    reverse: bool = False
    times: RowTimes | None = None

    def beyond(self, reached: bytes) -> Scan:
        """The rest of the scan behind the row at key `reached`."""
        keys = KeyRange(self.keys.start, reached) if self.reverse else KeyRange(reached + b"\0", self.keys.stop)
        return Scan(self.store, keys, self.reverse, self.times)

    def identity(self) -> bytes:
        """Bytes that are equal for equal scans only, whatever topic the rows come from. Cursors are bound to them."""
        return f"{store_of(self.store)}|{self.keys.start!r}|{self.keys.stop!r}|{self.reverse}|{self.times}".encode()


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Where a page ends.

    Attributes:
        rows: the most rows of a page.
        max_bytes: no more rows are added once keys and values have this many bytes.
        examined: the most rows that are looked at, including those that the scan's times leave out.
    """

    rows: int
    max_bytes: int
    examined: int = 20_000

    def within(self, most: PageLimits) -> PageLimits:
        """These, or less where `most` is."""
        return PageLimits(
            min(self.rows, most.rows), min(self.max_bytes, most.max_bytes), min(self.examined, most.examined)
        )


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows in the order of the scan.

    Attributes:
        rows: the rows.
        reached: the key up to which, inclusive, nothing is missing; None if nothing is missing at all.
    """

    rows: Sequence[Row]
    reached: bytes | None = None

    @property
    def more(self) -> bool:
        """Whether there may be rows behind it."""
        return self.reached is not None


def read_page(replicas: Sequence[Replica], scan: Scan, limits: PageLimits) -> Steps[RowPage]:
    """Reads, piece by piece, the first rows of a scan over several partitions of this node, all as of the first step.

    Raises:
        InvalidStateStoreError: if one of the replicas can't answer.
    """
    keys = scan.keys
    with ExitStack() as stack:
        scans = [stack.enter_context(replica.scan(keys.start, keys.stop, reverse=scan.reverse)) for replica in replicas]
        rows = ((key, row.value) for key, row in heapq.merge(*scans, key=by_key, reverse=scan.reverse))
        return (yield from _taken(rows, limits, None if scan.times is None else scan.times.accepts))


def take_page(rows: Iterator[Row], limits: PageLimits, accepts: Callable[[bytes], bool] | None = None) -> RowPage:
    """As many rows as the limits allow, at least one if there is one among those examined."""
    return finished(_taken(rows, limits, accepts))


def _taken(rows: Iterator[Row], limits: PageLimits, accepts: Callable[[bytes], bool] | None) -> Steps[RowPage]:
    rows_of_page: list[Row] = []
    size, paused_at, reached = 0, 0, None
    for examined, row in enumerate(rows):
        if examined >= limits.examined:
            return RowPage(rows_of_page, reached)
        if examined and (examined % _ROWS_A_STEP == 0 or size - paused_at > _BYTES_A_STEP):
            paused_at = size
            yield
        if accepts is None or accepts(row[0]):
            if len(rows_of_page) >= limits.rows or (rows_of_page and size + len(row[1]) > limits.max_bytes):
                return RowPage(rows_of_page, reached)
            rows_of_page.append(row)
            size += len(row[0]) + len(row[1])
        reached = row[0]
    return RowPage(rows_of_page)


def merge_pages(pages: Iterable[RowPage], limits: PageLimits, *, reverse: bool = False) -> RowPage:
    """One page from those of disjoint partitions.

    A page with more behind it has no information on keys after `reached`, so the merged page ends there too.
    """
    pages = list(pages)
    horizon = horizon_of((page.reached for page in pages), reverse=reverse)
    rows = sorted(chain.from_iterable(page.rows for page in pages), key=by_key, reverse=reverse)
    if horizon is not None:
        rows = [row for row in rows if row[0] == horizon or (row[0] > horizon) is reverse]
    taken = take_page(iter(rows), PageLimits(limits.rows, limits.max_bytes, len(rows) + 1))
    return RowPage(taken.rows, taken.reached if taken.more else horizon)


def horizon_of(reached: Iterable[bytes | None], *, reverse: bool) -> bytes | None:
    """The key that all parts of a scan have reached, None if all of them are at the end."""
    stops = [key for key in reached if key is not None]
    if not stops:
        return None
    return max(stops) if reverse else min(stops)


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The first page of a scan, asked of many partitions: each at a holder, the rows merged in order."""

    scan: Scan
    limits: PageLimits

    @property
    def store(self) -> str:
        """The store."""
        return self.scan.store

    def within(self, most: PageLimits) -> Self:
        """The query with limits that are at most those of the node that reads."""
        return replace(self, limits=self.limits.within(most))

    def request(self, _partitions: Sequence[int], rest: str) -> PeerRequest:
        """As another node reads it."""
        return asking(self, rest)

    def local(self, replicas: Sequence[Replica]) -> Steps[RowPage]:
        """Reads it."""
        return read_page(replicas, self.scan, self.limits)

    def decode(self, body: bytes) -> tuple[RowPage, list[Origin]]:
        """Reads another node's answer."""
        return unpacked(body, RowPage)


async def scan_page(
    gatherer: Gatherer, query: PageQuery, asked: Asked, partitions: Iterable[int] | None = None
) -> tuple[RowPage, Gathered[RowPage]]:
    """The first rows of a scan from all partitions or some, wherever they are. Raises as `Gatherer.complete`."""
    gatherer.check_free()
    gathered = await gatherer.complete(query, asked, partitions)
    await gatherer.scheduler.take()
    return merge_pages(gathered.contents, query.limits, reverse=query.scan.reverse), gathered


_VERSION = b"\x02"
_MAC_BYTES = 16


class CursorCodec:
    """The opaque cursor of a paged scan: where the next page begins, signed so that it can't be forged.

    Format, base64url of: version byte 2, HMAC-SHA-256 cut to 16 bytes, then the key after which to go on. The signature
    covers the version, the scan that the cursor belongs to and the key, so it fits no other scan. It is made with the
    cluster's secret, so every node accepts every other node's cursors.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(self, scan: bytes, after: bytes) -> str:
        """The cursor for the rest of `scan` behind the row at key `after`."""
        return base64.urlsafe_b64encode(_VERSION + self._mac(scan, after) + after).decode().rstrip("=")

    def decode(self, scan: bytes, cursor: str) -> bytes:
        """The key after which to go on.

        Raises:
            InvalidArgumentError: if the cursor was not made for this scan by a node of the same cluster.
        """
        data = decode_base64url(cursor, "the cursor")
        mac, after = data[1 : 1 + _MAC_BYTES], data[1 + _MAC_BYTES :]
        if data[:1] != _VERSION or not hmac.compare_digest(mac, self._mac(scan, after)):
            raise InvalidArgumentError("the cursor doesn't belong to this scan: begin again without one")
        return after

    def _mac(self, scan: bytes, after: bytes) -> bytes:
        text = b"%b%d:%b%b" % (_VERSION, len(scan), scan, after)
        return sign(self._secret, "cursor", text)[:_MAC_BYTES]
