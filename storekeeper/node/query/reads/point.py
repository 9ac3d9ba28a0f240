"""Reads of one key: in front of the web framework, from the path of a request to its answer.

A request for a store is sent to the variant that answers for it before any route sees it. So one request uses one
variant even if a switch-over happens, and its requests to other nodes name that variant.

The row comes from this node's replica where it can, from another node's where it can't, and at last from a snapshot.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

import structlog

from storekeeper.clock import Clock
from storekeeper.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    StateError,
    StoreRestoringError,
    StoreUnavailableError,
)
from storekeeper.metrics.latency import LatencyRecorder
from storekeeper.names import store_of
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.answer import (
    JSON,
    SERVED_BY,
    STALENESS,
    Answer,
    DeadlineExceededError,
    KeyTooLongError,
    UnknownKeyError,
    problem_of,
    unknown_key,
)
from storekeeper.node.query.answers.json_rows import row_json
from storekeeper.node.query.forwarding import NoHolderAnsweredError, PeerRequest, Router
from storekeeper.node.query.reads.as_of import AS_OF, PastReads
from storekeeper.node.query.reads.freshness_gate import Asked, FreshnessGate
from storekeeper.node.query.reads.hot import KEY_PARAMETERS, KEY_PREFIX, HotReads, is_base64url, renamed
from storekeeper.node.query.reads.kinds import KEYED_KINDS, require_kind
from storekeeper.node.query.reads.pages import QueryLimits
from storekeeper.node.query.reads.versions import version_at, version_json
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.security.hop import HOP
from storekeeper.protocol.freshness import (
    NO_REQUIREMENT,
    Freshest,
    FreshnessRequirement,
    Stale,
    TooStaleError,
    check_names,
    freshest,
)
from storekeeper.protocol.keys import decode_base64url, key_segments
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.snapshots.as_of import time_ms
from storekeeper.stores.store_definitions import ServedKind

log = structlog.get_logger(__name__)

LOCAL, FORWARDED = "local", "forwarded"
_FRESHER_S = 1.0
"""How long to wait for another node, or for this replica to catch up, if another node may be fresher."""
_HOP = HOP.encode()
_ASKED_PATH = "storekeeper.asked_path"
_STAYS_ENCODED = re.compile("(%2[fF]|%0[aA])")

_PARAMETERS = KEY_PARAMETERS | {AS_OF}
_VERSIONED = ServedKind.VERSIONED

Scope = MutableMapping[str, Any]


class Front:
    """ASGI: answers for single keys, hands everything else to `app`. Requests of other nodes already name a variant.

    The key is everything behind the store's name, percent-decoded once: it may contain slashes, encoded or not. With
    `?key_format=base64url` it is base64url, for keys that aren't text. Every requirement of freshness is accepted, too.
    """

    def __init__(self, catalog: Catalog, point: PointQueries, app: Any) -> None:
        self._catalog = catalog
        self._point = point
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answers one ASGI connection."""
        if scope["type"] == "http":
            aliased = self._catalog.aliased
            if aliased and not _is_forwarded(scope):
                scope = _renamed_scope(scope, aliased)
            path: bytes = scope["raw_path"]
            if scope["method"] == "GET" and path.startswith(KEY_PREFIX):
                answer = await self._point.answer_request(scope)
                await answer.send(send)
                return
            if b"%" in path:
                scope = {**scope, "path": _matched_path(path)}
        await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Query(Asked):
    """One key that is asked for; in a versioned store as of a time."""

    store: str
    partition: int
    key: bytes
    as_of_ms: int | None = None


class PointQueries:
    """Answers for one key at a time. Belongs to one event loop.

    No request takes longer than `longest_s`. `past` answers for a time.

    Attributes:
        hot: answers at once, in front of the application.
        latency: of reading a row from its store, by store; kept answers don't count.
        answered: how long answers took, of this node (local) and of others (forwarded).
    """

    def __init__(
        self,
        catalog: Catalog,
        router: Router,
        hot: HotReads,
        *,
        limits: QueryLimits,
        longest_s: float,
        clock: Clock,
        gate: FreshnessGate,
        past: PastReads,
    ) -> None:
        self._catalog = catalog
        self._router = router
        self._max_key_bytes = limits.max_key_bytes
        self._longest_s = longest_s
        self._clock = clock
        self._gate = gate
        self._past = past
        self._origin = hot.origin
        self.hot = hot
        self.latency = hot.latency
        self.answered = {LOCAL: hot.answered, FORWARDED: LatencyRecorder()}

    async def answer_request(self, scope: Mapping[str, Any]) -> Answer:
        """The answer to `GET /state/keyvalue/{store}/{key}`; errors come as problems."""
        store, _, key = scope["raw_path"].split(b"/", 3)[3].partition(b"/")
        query_string: bytes = scope["query_string"]
        try:
            name, key = unquote_to_bytes(store).decode(), unquote_to_bytes(key)
            as_of_ms = None
            if query_string:
                check_names(query_string, _PARAMETERS)
                if is_base64url(query_string):
                    key = decode_base64url(key, "the key")
                as_of_ms = _as_of(query_string)
            requirement = FreshnessRequirement.parse(query_string) if query_string else NO_REQUIREMENT
        except (InvalidArgumentError, UnicodeDecodeError) as error:
            return Answer.problem(problem_of(InvalidArgumentError(str(error))))
        return await self.answer(name, key, requirement, as_of_ms=as_of_ms, forwarded=_is_forwarded(scope))

    async def answer(
        self,
        store: str,
        key: bytes,
        requirement: FreshnessRequirement = NO_REQUIREMENT,
        *,
        as_of_ms: int | None = None,
        forwarded: bool,
    ) -> Answer:
        """The answer for a key; errors come as problems, none is raised.

        Of a versioned store it is the version that was valid at `as_of_ms`, the newest for None; of another one the row
        after the last batch until then. A `forwarded` request comes from another node and is not sent on.
        """
        arrived_s, began_ns = self._clock.monotonic_s(), time.perf_counter_ns()
        try:
            check_key(key, self._max_key_bytes)
            partition = self._catalog.partition(store, key)
            self._check_kind(store)
            deadline_s = requirement.deadline_s(arrived_s, self._longest_s)
            if as_of_ms is not None and not self._is_versioned(store):
                async with asyncio.timeout(deadline_s - arrived_s):
                    return await self._as_of(store, key, as_of_ms, partition)
            query = _Query(requirement, arrived_s, deadline_s, store, partition, key, as_of_ms)
            answer = await self._answered(query, forwarded=forwarded)
            way = LOCAL if (SERVED_BY, self._catalog.node.encode()) in answer.headers else FORWARDED
            self.answered[way].record(time.perf_counter_ns() - began_ns)
            return answer
        except TimeoutError:
            late = DeadlineExceededError("the history was not read before the deadline: ask again, with more time")
            return Answer.problem(problem_of(late), (SERVED_BY, self._catalog.node.encode()))
        except Exception as error:
            if not isinstance(error, StateError):
                log.exception("point_query_failed", store=store)
            return Answer.problem(problem_of(error), (SERVED_BY, self._catalog.node.encode()))

    async def _answered(self, query: _Query, *, forwarded: bool) -> Answer:
        """From this node's replica if it may answer and no other is likely to be fresher; if not, from another node."""
        replica = self._catalog.replica(query.store, query.partition)
        if replica is not None and query.requirement.allows(replica.role, caught_up=replica.serving):
            try:
                if not forwarded and (fresher := await self._fresher(replica, query)) is not None:
                    return fresher
                share = 1.0 if forwarded else 0.5
                if not query.requirement.asks_freshness or await self._gate.admits(replica, query, share=share):
                    return self._local(replica, query)
            except InvalidStateStoreError:
                # Closed or damaged during the query: another replica may answer.
                if forwarded:
                    raise
        if forwarded:
            return self._late(replica, query) or self._refuse(replica, query)
        return await self._remote(replica, query)

    async def _fresher(self, replica: Replica, query: _Query) -> Answer | None:
        """Asks another node if its replica is probably fresher. None as soon as this node's replica has caught up.

        After a pause of the process, catching up takes only a moment.
        """
        if self._catalog.answers_best(replica, query.arrived_s):
            return None
        until_s = min(query.deadline_s, query.arrived_s + _FRESHER_S)
        acceptable = FreshnessRequirement(max_staleness_ms=self._catalog.acceptable_staleness_ms)
        remote = asyncio.ensure_future(self._forwarded(query, until_s))
        here = asyncio.ensure_future(self._gate.wait_until_met(replica, acceptable, query.arrived_s, until_s))
        try:
            await asyncio.wait((remote, here), return_when=asyncio.FIRST_COMPLETED)
            if here.done() and here.result() is not None:
                return None
            answer = await remote
        except NoHolderAnsweredError:
            answer = None
        finally:
            remote.cancel()
            here.cancel()
            await asyncio.gather(remote, here, return_exceptions=True)
        return self._if_fresher(answer, replica, query)

    def _if_fresher(self, answer: Answer | None, replica: Replica, query: _Query) -> Answer | None:
        mine_ms = self._origin.observe(replica, query.arrived_s).staleness_ms
        theirs_ms = None if answer is None else dict(answer.headers).get(STALENESS)
        if theirs_ms is None or not theirs_ms.isdigit() or (mine_ms is not None and int(theirs_ms) >= mine_ms):
            self._catalog.nobody_is_fresher(self._clock.monotonic_s())
            return None
        return answer

    def _local(self, replica: Replica, query: _Query) -> Answer:
        store, key = query.store, query.key
        observed = self._origin.observe(replica, query.arrived_s)
        began_ns = time.perf_counter_ns()
        row = self._row(replica, query)
        self.latency[store_of(store)].record(time.perf_counter_ns() - began_ns)
        headers = self._origin.headers(replica, observed)
        if row is not None:
            return Answer(200, [JSON, *headers], row)
        if not replica.serving:
            msg = f"{replica.replica_id} is restoring, and the key is not among its rows yet: ask again later"
            raise StoreRestoringError(msg)
        return Answer.problem(problem_of(unknown_key(store, key)), *headers)

    def _row(self, replica: Replica, query: _Query) -> bytes | None:
        """The row as JSON; None if there is none."""
        if self._is_versioned(query.store):
            as_of_ms = MAX_TIMESTAMP_MS if query.as_of_ms is None else query.as_of_ms
            version = version_at(replica, query.key, as_of_ms)
            return None if version is None else version_json(query.key, version)
        row = replica.get(query.key, restoring=query.requirement.stale is Stale.OK)
        return None if row is None else row_json(query.key, row.value)

    async def _as_of(self, store: str, key: bytes, at_ms: int, partition: int) -> Answer:
        """The row of a key after the last batch until a time."""
        value = await self._past.row(store, key, at_ms, partition)
        if value is None:
            shown = key[:200].decode(errors="replace")
            msg = f"store {store_of(store)} had no key {shown!r} at {at_ms}"
            return Answer.problem(problem_of(UnknownKeyError(msg)), *self._past.headers)
        return Answer(200, [JSON, *self._past.headers], row_json(key, self._past.shown(store_of(store), value)))

    def _check_kind(self, store: str) -> None:
        require_kind(self._catalog.definitions[store_of(store)], *KEYED_KINDS, _VERSIONED)

    def _is_versioned(self, store: str) -> bool:
        return self._catalog.definitions[store_of(store)].kind is _VERSIONED

    def _late(self, replica: Replica | None, query: _Query) -> Answer | None:
        """This node's answer if its replica is as fresh as required by now."""
        if replica is None or not replica.serving or not query.requirement.asks_freshness:
            return None
        met = query.requirement.met_by(replica.freshness(query.arrived_s))
        return self._local(replica, query) if met else None

    def _refuse(self, replica: Replica | None, query: _Query) -> NoReturn:
        if replica is None:
            raise self._catalog.not_held(query.store, query.partition)
        if replica.serving and query.requirement.asks_freshness:
            raise self._too_stale(query, [query.refused(self._catalog.node, replica)])
        replica.get(b"\0")
        msg = f"{replica.replica_id} has just become ready on node {self._catalog.node}: ask again"
        raise StoreUnavailableError(msg)

    async def _remote(self, replica: Replica | None, query: _Query) -> Answer:
        try:
            return await self._forwarded(query, query.deadline_s)
        except NoHolderAnsweredError as error:
            requirement = query.requirement
            if (late := self._late(replica, query)) is not None:
                return late
            known = [Freshest.in_refusal(answer.body) for answer in error.answers] if requirement.asks_freshness else []
            if requirement.asks_freshness and replica is not None and replica.serving:
                known.append(query.refused(self._catalog.node, replica))
            if any(known):
                raise self._too_stale(query, known) from error
            if replica is not None and not error.asked:
                self._refuse(replica, query)
            raise

    async def _forwarded(self, query: _Query, deadline_s: float) -> Answer:
        (segment,), key_format = key_segments(query.key)
        as_of = "" if query.as_of_ms is None else f"&{AS_OF}={query.as_of_ms:09d}"  # eight digits may be a day
        path = f"/state/keyvalue/{query.store}/{segment}?{key_format}{as_of}{self._sent_on(query)}"
        return await self._router.forward(query.store, query.partition, PeerRequest(path), deadline_s=deadline_s)

    def _sent_on(self, query: _Query) -> str:
        if query.requirement == NO_REQUIREMENT:
            return ""
        return f"&{query.sent_on(self._clock.monotonic_s())}"

    def _too_stale(self, query: _Query, known: list[Freshest | None]) -> TooStaleError:
        where = f"partition {query.partition} of {query.store}"
        msg = f"no replica of {where} is as fresh as required: ask for less, or wait longer"
        return TooStaleError(msg, freshest(known))


def check_key(key: bytes, max_bytes: int) -> None:
    """Raises InvalidArgumentError if a key is empty, KeyTooLongError if it is over the limit."""
    if not key:
        raise InvalidArgumentError(
            "the key is empty: name one of at least a byte, percent-encoded if it is in the path"
        )
    if len(key) > max_bytes:
        msg = f"the key has {len(key)} bytes, over the limit of {max_bytes}"
        raise KeyTooLongError(msg)


def _as_of(query_string: bytes) -> int | None:
    """The time in a query string; None if there is none. Raises InvalidArgumentError."""
    versions = [
        value
        for name, value in parse_qsl(query_string.decode("ascii", "replace"), keep_blank_values=True)
        if name == AS_OF
    ]
    return time_ms(versions[0]) if versions else None


def asked_path(scope: Mapping[str, Any]) -> bytes:
    """The path of a request as it was sent."""
    path: bytes = scope.get(_ASKED_PATH, scope["raw_path"])
    return path


def _renamed_scope(scope: Scope, aliased: Mapping[bytes, bytes]) -> Scope:
    asked: bytes = scope["raw_path"]
    path = renamed(asked, aliased)
    return scope if path is asked else {**scope, "raw_path": path, "path": _matched_path(path), _ASKED_PATH: asked}


def _matched_path(path: bytes) -> str:
    """The path that routes are matched with: decoded, but for what a key has and a route takes for its own.

    These are slashes and line breaks. A key need not be UTF-8.
    """
    parts = _STAYS_ENCODED.split(path.decode("ascii"))
    return "".join(part if number % 2 else unquote(part) for number, part in enumerate(parts))


def _is_forwarded(scope: Mapping[str, Any]) -> bool:
    """Whether the request comes from another node; then it is never sent on."""
    return any(name == _HOP for name, _ in scope["headers"])
