"""Answers that this node can give at once, as whole HTTP responses: for one key, or for several.

A row that was asked for before and has not changed takes one look-up: no store, no hash, no JSON. Another row of this
node takes one read. Everything else is left to the application: rows on other nodes, waits, malformed requests.

The headers of a kept answer are right although the follower writes at the same time: their text was made before the
row was found unchanged, and it is used only while the replica's `shown_offset` is the one in the text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from storekeeper.clock import Clock
from storekeeper.errors import InvalidArgumentError, StateError
from storekeeper.metrics.latency import LatencyRecorder
from storekeeper.names import store_of
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.answer import problem_of, unknown_key
from storekeeper.node.query.answers.json_rows import no_row_json, row_json
from storekeeper.node.query.answers.origins import LocalOrigin, ObservedFreshness
from storekeeper.node.query.reads.kinds import KEYED_KINDS
from storekeeper.node.query.reads.many import READ_AT_ONCE, parse_keys
from storekeeper.node.query.reads.pages import QueryLimits
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_rows import Cached, RowCache
from storekeeper.protocol.freshness import NO_REQUIREMENT, PARAMETERS, FreshnessRequirement, check_names
from storekeeper.protocol.replica_states import ReplicaRole
from storekeeper.schemas.framing import MAGIC

HOT_PREFIX = b"/state/keyvalue"
"""Only requests for paths with this prefix have answers here."""
KEY_PREFIX = b"/state/keyvalue/"
KEY_PARAMETERS = PARAMETERS | {"key_format"}
"""What a request for one key may have in its query string."""
_MANY_PREFIX = b"/state/keyvalues/"
_PREFIX_BYTES = len(KEY_PREFIX)
_LONGEST_TARGET_BYTES = 16_384
"""Longer ones are left to the guard."""
_MANY_AT_ONCE = 1000
_TARGET = re.compile(rb"[\x21-\x22\x24-\x7e]+")
_PLAIN_TARGET = re.compile(rb"[A-Za-z0-9._~!$'()*,;:@/?&=-]+")
_PLAIN_STORE = re.compile(rb"[A-Za-z0-9._@-]+")
_PLAIN_KEY = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:@-]+")
"""Keys that every client writes into a path as they are."""
_NO_REQUIREMENT = re.compile(rb"key_format=string(?:&deadline_ms=[1-9][0-9]{0,8})?")
"""The parameters that clients send with each query. An immediate answer is always in time."""
_KEY_FORMAT = b"key_format="
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_NONE = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\n"
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


class HotReads:
    """Belongs to one event loop.

    Attributes:
        origin: the headers of answers from this node's own rows.
        latency: of reading a row from its store, by store; kept answers don't count.
        answered: how long the answers here took.
    """

    def __init__(self, catalog: Catalog, clock: Clock, limits: QueryLimits) -> None:
        self._catalog = catalog
        self._monotonic_s = clock.monotonic_s
        self._max_key_bytes = limits.max_key_bytes
        self._max_keys = min(limits.max_page_rows, _MANY_AT_ONCE)
        self.origin = LocalOrigin(catalog.node, lambda: catalog.epoch)
        self.latency = {store: LatencyRecorder() for store in catalog.topics}
        self.answered = LatencyRecorder()
        self._caches: dict[bytes, RowCache] = {}
        self._heads: dict[Replica, _Head] = {}
        self._head_of_many: tuple[object, bytes] = (None, b"")

    def now(self, target: bytes) -> bytes | None:
        """The response to a `GET` of a path with its query string; None leaves it to the application."""
        began_ns = time.perf_counter_ns()
        if len(target) > _LONGEST_TARGET_BYTES:
            return None
        aliased = self._catalog.aliased
        if aliased:
            target = renamed(target, aliased)
        if not target.startswith(KEY_PREFIX):
            return self._several(target)
        mark = target.find(b"?")
        if mark > 0 and _NO_REQUIREMENT.fullmatch(target, mark + 1) is not None:
            target = target[:mark]
        store, _, key = target[_PREFIX_BYTES:].partition(b"/")
        row = self._kept(store, key)
        if row is None:
            row = self._parsed(target)
        if row is not None:
            self.answered.record(time.perf_counter_ns() - began_ns)
        return row

    def posted(self, target: bytes, body: bytes) -> bytes | None:
        """The response to `POST /state/keyvalues/{store}` with keys in the body and nothing required."""
        aliased = self._catalog.aliased
        if aliased:
            target = renamed(target, aliased)
        store = target[len(_MANY_PREFIX) :]
        if not target.startswith(_MANY_PREFIX) or _PLAIN_STORE.fullmatch(store) is None:
            return None
        try:
            keys = parse_keys(body)
        except InvalidArgumentError:
            return None
        return self.rows(store, keys)

    def rows(self, store: bytes, keys: Sequence[bytes]) -> bytes | None:
        """The response for several keys, if this node has all rows. Rows that aren't kept are read first."""
        if not 1 <= len(keys) <= self._max_keys:
            return None
        rows = self._all_kept(store, keys)
        if rows is not None:
            self._caches[store].hits += len(keys)
        elif self._warm(store.decode(), keys):
            rows = self._all_kept(store, keys)
        return rows

    def row(self, store: str, key: bytes, requirement: FreshnessRequirement) -> bytes | None:
        """The response for one key, if this node has the row and it is as fresh as required."""
        catalog = self._catalog
        try:
            replica = catalog.replica(store, catalog.partition(store, key))
            if catalog.definitions[store_of(store)].kind not in KEYED_KINDS:
                return None
            if replica is None or not replica.serving or len(key) > self._max_key_bytes:
                return None
            arrived_s = self._monotonic_s()
            if not catalog.answers_best(replica, arrived_s):
                return None
            if requirement.asks_freshness and not requirement.met_by(replica.freshness(arrived_s)):
                return None
            observed = self.origin.observe(replica, arrived_s)
            writes = replica.writes
            began_ns = time.perf_counter_ns()
            row = replica.get(key)
            self.latency[store_of(store)].record(time.perf_counter_ns() - began_ns)
        except StateError:
            return None
        _count_misses(replica, 1)
        tail = self._keep(replica, store, key, None if row is None else row.value, writes)
        return b"%b%b%b" % (_NONE if row is None else _OK, self.origin.block(replica, observed), tail)

    def _parsed(self, target: bytes) -> bytes | None:
        if _TARGET.fullmatch(target) is None:
            return None
        path, _, query_string = target.partition(b"?")
        store, _, key = path[_PREFIX_BYTES:].partition(b"/")
        requirement = NO_REQUIREMENT
        try:
            if query_string:
                if b"%" in query_string:
                    return None
                required = _requirement(query_string)
                if required is None:
                    return None
                requirement = required
            if b"%" in target:
                store, key = unquote_to_bytes(store), unquote_to_bytes(key)
            return self.row(store.decode(), key, requirement) if key else None
        except (InvalidArgumentError, UnicodeDecodeError):
            return None

    def _several(self, target: bytes) -> bytes | None:
        """`/state/keyvalues/{store}?key=a&key=b` with nothing else in it, and keys that need no decoding."""
        if not target.startswith(_MANY_PREFIX):
            return None
        store, separator, names = target[len(_MANY_PREFIX) :].partition(b"?key=")
        keys = names.split(b"&key=")
        if not separator or len(keys) != names.count(b"&") + 1 or _PLAIN_TARGET.fullmatch(target) is None:
            return None
        return self.rows(store, keys)

    def _kept(self, store: bytes, key: bytes) -> bytes | None:
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

    def _all_kept(self, store: bytes, keys: Sequence[bytes]) -> bytes | None:
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
        head = self._written_for_many(states)
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

    def _warm(self, store: str, keys: Sequence[bytes]) -> bool:
        """Reads the rows that aren't kept and keeps their answers; False if this node can't."""
        catalog = self._catalog
        by_replica: dict[Replica, list[bytes]] = {}
        try:
            if catalog.definition(store).kind not in KEYED_KINDS:
                return False
            for key in keys:
                replica = catalog.replica(store, catalog.partition(store, key))
                if replica is None or replica.cache is None or not 0 < len(key) <= self._max_key_bytes:
                    return False
                if replica.cache.get(key) is None:
                    by_replica.setdefault(replica, []).append(key)
                else:
                    replica.cache.hits += 1
            if sum(map(len, by_replica.values())) > READ_AT_ONCE:
                return False
            for replica, absent in by_replica.items():
                writes = replica.writes
                _count_misses(replica, len(absent))
                for key, row in replica.get_many(absent).items():
                    self._keep(replica, store, key, None if row is None else row.value, writes)
        except StateError:
            return False
        return True

    def _keep(self, replica: Replica, store: str, key: bytes, value: bytes | None, writes: int) -> bytes:
        """Keeps the answer for a row, or for a missing one, and returns all of it from `content-length` on.

        `writes` are the replica's before the row was read.
        """
        body = problem_of(unknown_key(store, key)).body() if value is None else row_json(key, value)
        tail = b"content-length: %d\r\n\r\n%b" % (len(body), body)
        cache = replica.cache
        if cache is not None and _PLAIN_KEY.fullmatch(key) is not None and not self._lacks_schema(store, value):
            self._caches[store.encode()] = cache
            entry: Cached = (replica, tail, len(tail) - len(body), True)
            if value is None:
                entry = (replica, tail + no_row_json(key), len(tail), False)
            cache.put(key, entry)
            if replica.writes != writes:
                cache.drop((key,))
        return tail

    def _lacks_schema(self, store: str, value: bytes | None) -> bool:
        """Whether a value isn't shown as JSON because its schema is unknown; the registry may have it later."""
        return value is not None and value.startswith(MAGIC) and self._catalog.definitions[store_of(store)].by_schema

    def _written_for_many(self, states: Sequence[_State]) -> bytes:
        known = (tuple(states), self._catalog.epoch)
        if self._head_of_many[0] != known:
            all_observed = [
                (state[0], ObservedFreshness(state[0].offset or 0, state[0].offset_lag, None)) for state in states
            ]
            self._head_of_many = (known, _OK + self.origin.block_of_many(all_observed))
        return self._head_of_many[1]

    def _written(self, replica: Replica) -> _Head:
        if len(self._heads) > 2 * len(self._catalog.replicas) + 16:
            self._heads.clear()  # some are of dropped replicas
        # Any later change also changes one of these values, so the text is not used then.
        version, shown, role, epoch = replica.tracker.version, replica.shown_offset, replica.role, self._catalog.epoch
        text = self.origin.block(replica, ObservedFreshness(replica.offset or 0, replica.offset_lag, None))
        head = _Head(version, shown, role, epoch, _OK + text, _NONE + text)
        self._heads[replica] = head
        return head


def _unchanged(replica: Replica, version: int, shown: int, role: ReplicaRole) -> bool:
    return (
        replica.tracker.version == version
        and replica.shown_offset == shown
        and replica.role is role
        and replica.serving
    )


def _count_misses(replica: Replica, rows: int) -> None:
    """Counts rows that were not in the cache."""
    if replica.cache is not None:
        replica.cache.misses += rows


@lru_cache(maxsize=1024)
def _requirement(query_string: bytes) -> FreshnessRequirement | None:
    """The requirement for a key that is written as text; None if it is written otherwise."""
    # Requirements without a token repeat from request to request.
    check_names(query_string, KEY_PARAMETERS)
    return None if is_base64url(query_string) else FreshnessRequirement.parse(query_string)


def is_base64url(query_string: bytes) -> bool:
    """Whether the key is base64url. Raises InvalidArgumentError if it says neither that nor text."""
    parts = query_string.split(b"&")
    (key_format,) = [part[len(_KEY_FORMAT) :] for part in parts if part.startswith(_KEY_FORMAT)] or [b"string"]
    if key_format not in {b"string", b"base64url"}:
        raise InvalidArgumentError("key_format is string or base64url")
    return key_format == b"base64url"


_STATE = b"/state/"
_GROUPS = frozenset(
    {b"keyvalue", b"keyvalues", b"windowed", b"sessions", b"versions", b"ranked"}
    | {b"metadata", b"instance", b"instances", b"stores", b"digest"}
)


def renamed(target: bytes, aliased: Mapping[bytes, bytes]) -> bytes:
    """`/state/GROUP/STORE…` with the variant in the store's place; the very same object if nothing changes."""
    if not target.startswith(_STATE):
        return target
    group, _, rest = target[len(_STATE) :].partition(b"/")
    end = min(len(rest) if at < 0 else at for at in (rest.find(b"/"), rest.find(b"?")))
    store = rest[:end]
    variant = aliased.get(unquote_to_bytes(store) if b"%" in store else store)
    if variant is None or group not in _GROUPS:
        return target
    return b"%b%b/%b%b" % (_STATE, group, variant, rest[end:])
