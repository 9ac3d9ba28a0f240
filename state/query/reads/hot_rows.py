"""Answers for rows that were asked for before and have not changed: one look-up, no store, no hash, no JSON.

The headers of such an answer are right although the follower writes at the same time: their text was made before the
row was found unchanged, and it is used only while the replica's `shown_offset` is the one in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from state.clock import Clock
from state.cluster.catalog import Catalog
from state.query.answers.answer import problem_of, unknown_key
from state.query.answers.json_rows import no_row_json
from state.query.answers.origins import LocalOrigin, Look
from state.replicas.replica import Replica
from state.replicas.row_cache import Cached, RowCache
from state.replicas.states import ReplicaRole

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
"""How the response to a row begins."""
NONE = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\n"
"""How the response for a missing row begins."""
_PLAIN = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:@-]+")
"""Keys that every client writes into a path as they are."""


_AROUND_ROWS = len(b'{"rows":[],"complete":true}')
_State = tuple[Replica, int, int, ReplicaRole]


@dataclass(slots=True)
class _Head:
    """The text of a replica's headers in one state, for a row and for a missing row."""

    version: int
    shown: int
    role: ReplicaRole
    epoch: str
    text: bytes
    none: bytes


class HotRows:
    """Belongs to one event loop."""

    def __init__(self, catalog: Catalog, clock: Clock, origin: LocalOrigin) -> None:
        self._catalog = catalog
        self._monotonic_s = clock.monotonic_s
        self._origin = origin
        self._caches: dict[bytes, RowCache] = {}
        self._heads: dict[Replica, _Head] = {}
        self._many: tuple[object, bytes] = (None, b"")

    def answer(self, store: bytes, key: bytes) -> bytes | None:
        """The whole HTTP response; None if it can't come from the cache."""
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
        cache.hits += 1
        staleness_ms = int((arrived_s - fresh_at_s) * 1000) + 1
        if entry[3]:
            return b"%bstorekeeper-staleness-ms: %d\r\n%b" % (head.text, max(0, staleness_ms), entry[1])
        return b"%bstorekeeper-staleness-ms: %d\r\n%b" % (head.none, max(0, staleness_ms), entry[1][: entry[2]])

    def answer_many(self, store: bytes, keys: Sequence[bytes]) -> bytes | None:
        """The whole HTTP response to several keys; None if it can't come from the cache."""
        cache = self._caches.get(store)
        if cache is None:
            return None
        get = cache.get
        entries = list(map(get, keys))
        if None in entries:
            return None
        arrived_s = self._monotonic_s()
        replicas = {entry[0] for entry in entries if entry is not None}
        states = [(replica, replica.tracker.version, replica.shown_offset, replica.role) for replica in replicas]
        fresh_at_s = [replica.tracker.fresh_at_s for replica in replicas]
        head = self._head_of_many(states)
        still = all(_unchanged(*state) and self._catalog.answers_best(state[0], arrived_s) for state in states)
        if not still or None in fresh_at_s or list(map(get, keys)) != entries:
            return None
        staleness_ms = max(0, *(int((arrived_s - at_s) * 1000) + 1 for at_s in fresh_at_s if at_s is not None))
        rows = b",".join([entry[1][entry[2] :] for entry in entries if entry is not None])
        return b'%bstorekeeper-staleness-ms: %d\r\ncontent-length: %d\r\n\r\n{"rows":[%b],"complete":true}' % (
            head,
            staleness_ms,
            len(rows) + _AROUND_ROWS,
            rows,
        )

    def count_hits(self, store: bytes, rows: int) -> None:
        """Counts rows that `answer_many` found in the cache."""
        self._caches[store].hits += rows

    def keep(self, replica: Replica, store: str, key: bytes, body: bytes, writes: int) -> bytes:
        """Keeps a row's answer, and returns all of it from `content-length` on.

        `body` is the row as JSON, `writes` the replica's before the row was read.
        """
        tail = b"content-length: %d\r\n\r\n%b" % (len(body), body)
        self._put(store, key, (replica, tail, len(tail) - len(body), True), writes)
        return tail

    def keep_none(self, replica: Replica, store: str, key: bytes, writes: int) -> bytes:
        """The same for a key without a row: the 404 answer."""
        body = problem_of(unknown_key(store, key)).body()
        tail = b"content-length: %d\r\n\r\n%b" % (len(body), body)
        self._put(store, key, (replica, b"%b%b" % (tail, no_row_json(key)), len(tail), False), writes)
        return tail

    def _put(self, store: str, key: bytes, entry: Cached, writes: int) -> None:
        cache = entry[0].cache
        if cache is not None and _PLAIN.fullmatch(key) is not None:
            self._caches[store.encode()] = cache
            cache.put(key, entry)
            if entry[0].writes != writes:
                cache.drop((key,))

    def _head_of_many(self, states: Sequence[_State]) -> bytes:
        known = (tuple(states), self._catalog.epoch)
        if self._many[0] != known:
            looks = [(state[0], Look(state[0].offset or 0, state[0].offset_lag, None)) for state in states]
            self._many = (known, OK + self._origin.block_of_many(looks))
        return self._many[1]

    def _written(self, replica: Replica) -> _Head:
        if len(self._heads) > 2 * len(self._catalog.replicas) + 16:
            self._heads.clear()  # some are of dropped replicas
        # Any later change also changes one of these values, so the text is not used then.
        version, shown, role, epoch = replica.tracker.version, replica.shown_offset, replica.role, self._catalog.epoch
        text = self._origin.block(replica, Look(replica.offset or 0, replica.offset_lag, None))
        head = _Head(version, shown, role, epoch, OK + text, NONE + text)
        self._heads[replica] = head
        return head


def _unchanged(replica: Replica, version: int, shown: int, role: ReplicaRole) -> bool:
    return (
        replica.tracker.version == version
        and replica.shown_offset == shown
        and replica.role is role
        and replica.serving
    )
