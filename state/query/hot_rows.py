"""Answers for rows that were asked for before and have not changed: one look-up, no store, no hash, no JSON.

What such an answer says of itself is true although the follower writes at the same time: the headers' text is that of
a moment before the row was found unchanged, and it is used only if nothing more shows in the rows than it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from state.changelog.restore import Role
from state.clock import Clock
from state.query.catalog import Catalog
from state.query.local_origin import LocalOrigin, Look
from state.replicas.replica import Replica
from state.replicas.row_cache import RowCache

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
"""How the response to a row begins."""
_PLAIN = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:@-]+")
"""Keys that stand in a path as they are, whoever writes it."""


@dataclass(slots=True)
class _Head:
    """The text of a replica's headers in one state of it."""

    version: int
    shown: int
    role: Role
    epoch: str
    text: bytes


class HotRows:
    """Belongs to one event loop."""

    def __init__(self, catalog: Catalog, clock: Clock, origin: LocalOrigin) -> None:
        self._catalog = catalog
        self._monotonic_s = clock.monotonic_s
        self._origin = origin
        self._caches: dict[bytes, RowCache] = {}
        self._heads: dict[Replica, _Head] = {}

    def answer(self, store: bytes, key: bytes) -> bytes | None:
        """The whole HTTP response; None if the row must be looked for."""
        cache = self._caches.get(store)
        entry = None if cache is None else cache.get(key)
        if cache is None or entry is None:
            return None
        replica: Replica = entry[0]
        arrived_s = self._monotonic_s()
        tracker = replica.tracker
        head = self._heads.get(replica)
        if head is None or head.version != tracker.version or head.role is not replica.role:
            head = self._written(replica)
        fresh_at_s = tracker.fresh_at_s
        if (
            cache.get(key) is not entry
            or head.shown != replica.shown_offset
            or head.epoch != self._catalog.epoch
            or fresh_at_s is None
            or not replica.serving
            or not self._catalog.answers_best(replica, arrived_s)
        ):
            return None
        staleness_ms = int((arrived_s - fresh_at_s) * 1000) + 1
        return b"%bstorekeeper-staleness-ms: %d\r\n%b" % (head.text, max(0, staleness_ms), entry[1])

    def keep(self, replica: Replica, store: str, key: bytes, tail: bytes, writes: int) -> None:
        """Keeps the rest of an answer, from `content-length` on.

        Args:
            replica: the replica that the row was read from.
            store: its store.
            key: the row's key.
            tail: what follows the headers of its origin.
            writes: the replica's `writes` before the row was read.
        """
        cache = replica.cache
        if cache is None or _PLAIN.fullmatch(key) is None:
            return
        self._caches[store.encode()] = cache
        cache.put(key, (replica, tail))
        if replica.writes != writes:
            cache.drop((key,))

    def _written(self, replica: Replica) -> _Head:
        if len(self._heads) > 2 * len(self._catalog.replicas) + 16:
            self._heads.clear()  # of replicas that were let go
        # Whatever changes from here on shows in these, so that the text is not used.
        version, shown, role, epoch = replica.tracker.version, replica.shown_offset, replica.role, self._catalog.epoch
        text = self._origin.block(replica, Look(replica.offset or 0, replica.offset_lag, None))
        head = _Head(version, shown, role, epoch, OK + text)
        self._heads[replica] = head
        return head
