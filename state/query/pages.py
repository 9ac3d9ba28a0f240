"""One page of a scan: a bounded run of rows in key order, and how pages of several partitions become one."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from state.replicas.replica import Replica

Row = tuple[bytes, bytes]
_by_key = itemgetter(0)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `lower` to `upper`, both inclusive, compared as unsigned bytes; None leaves that end open."""

    lower: bytes | None = None
    upper: bytes | None = None

    @property
    def start(self) -> bytes | None:
        """The first key that may be in it."""
        return self.lower

    @property
    def stop(self) -> bytes | None:
        """The first key behind it."""
        return None if self.upper is None else self.upper + b"\0"

    def behind(self, after: bytes) -> KeyRange:
        """The part behind the row at key `after`."""
        return KeyRange(after + b"\0", self.upper)


@dataclass(frozen=True, slots=True)
class PageLimits:
    """At most so many rows, and no row more once the values have reached so many bytes."""

    rows: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in key order. `more`: there may be rows behind the last one."""

    rows: Sequence[Row]
    more: bool


def read_page(replicas: Sequence[Replica], keys: KeyRange, limits: PageLimits) -> Page:
    """The first rows of a range over several partitions of this node, each row as of the moment of the call.

    Raises:
        InvalidStateStoreError: if one of the replicas can't answer.
    """
    with ExitStack() as stack:
        scans = [stack.enter_context(replica.scan(keys.start, keys.stop)) for replica in replicas]
        rows = ((key, row.value) for key, row in heapq.merge(*scans, key=_by_key))
        return take_page(rows, limits)


def take_page(rows: Iterator[Row], limits: PageLimits) -> Page:
    """As many rows as the limits let through, at least one if there is one."""
    taken: list[Row] = []
    size = 0
    for row in rows:
        if len(taken) >= limits.rows or (taken and size + len(row[1]) > limits.max_bytes):
            return Page(taken, more=True)
        taken.append(row)
        size += len(row[0]) + len(row[1])
    return Page(taken, more=False)


def merge_pages(pages: Iterable[Page], limits: PageLimits) -> Page:
    """One page from those of disjoint partitions.

    A page that has more behind it says nothing of the keys after its last one, so the merged page ends at the
    smallest such key.
    """
    pages = list(pages)
    horizon = min((page.rows[-1][0] for page in pages if page.more and page.rows), default=None)
    rows = sorted(chain.from_iterable(page.rows for page in pages), key=_by_key)
    if horizon is not None:
        rows = [row for row in rows if row[0] <= horizon]
    taken = take_page(iter(rows), limits)
    return Page(taken.rows, more=taken.more or any(page.more for page in pages))
