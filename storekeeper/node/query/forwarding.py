"""Asks the other nodes: within a deadline, the first holder of a partition, and the next one when that is slow or gone.

If a holder refuses the connection or can't answer, the next one is asked at once. If it is merely slow, the next one is
asked as well after a short delay (hedging), and the first answer wins. Hedging is limited to a share of all requests,
so that it doesn't double the load of an overloaded cluster. The limit doesn't apply if the slow node is suspect.
Requests go to members' addresses only, and to a failing node last.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx2
import orjson
import structlog

from storekeeper.clock import Clock
from storekeeper.errors import StoreUnavailableError
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.answer import Answer
from storekeeper.node.security.hop import HOP
from storekeeper.protocol.cancelled_handshakes import handshake_extensions
from storekeeper.trace_context import TRACEPARENT, current_trace

log = structlog.get_logger(__name__)

_SAMPLES = 64
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 4.0
_MIN_HEDGE_S = 0.02
_MAX_HEDGE_S = 0.1
_HEDGE_FACTOR = 3


class PeerHealth:
    """The health of one node. Belongs to one event loop.

    A node that failed or was overtaken is suspect for a pause that doubles each time. During that pause it is asked
    last. When the pause ends, one request tries it while the others still go elsewhere. So a node that hangs delays
    one request from time to time, never all of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latencies_s: deque[float] = deque(maxlen=_SAMPLES)
        self._p95_s = 0.0
        self._pause_s = 0.0
        self._suspect_until_s = 0.0
        self._on_trial = False

    @property
    def suspect(self) -> bool:
        """Whether it should be asked last."""
        return self._clock.monotonic_s() < self._suspect_until_s

    @property
    def hedge_delay_s(self) -> float:
        """How long to wait for its answer before the next node is asked too."""
        return min(_MAX_HEDGE_S, max(_MIN_HEDGE_S, _HEDGE_FACTOR * self._p95_s))

    def answered(self, latency_s: float) -> None:
        """Notes an answer with any status."""
        self._latencies_s.append(latency_s)
        ordered = sorted(self._latencies_s)
        self._p95_s = ordered[len(ordered) * 95 // 100]
        if latency_s < self.hedge_delay_s:
            self._pause_s = self._suspect_until_s = 0.0
            self._on_trial = False

    def failed(self) -> None:
        """Notes that it did not answer, or that a node asked later answered first."""
        now_s = self._clock.monotonic_s()
        if now_s < self._suspect_until_s and not self._on_trial:
            return
        self._on_trial = False
        self._pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, self._pause_s * 2))
        self._suspect_until_s = now_s + self._pause_s

    def trying(self) -> None:
        """Notes that a request is about to try it after a pause: other requests go elsewhere for a moment."""
        if self._pause_s and not self.suspect:
            self._suspect_until_s = self._clock.monotonic_s() + _MAX_HEDGE_S
            self._on_trial = True


AT_CAPACITY = "answers as many requests as it may"
"""In the error's message when another node has refused a request because it has too many under way."""
_REFUSED = b'"urn:storekeeper:problem:hop-refused"'
_PROBLEM_BYTES = 64
_READ_BYTES = 16_384
_DETAIL_CHARS = 300
FORWARD_TIMEOUT_MS = 2000
"""Time limit of a request to another node: a caller waits for that long at most until it can retry."""
MAX_ANSWER_BYTES = 64 << 20
"""A page within the usual limits is far smaller, and so are a thousand rows unless they are very large."""
_PASSED_ON = frozenset({b"content-type", b"retry-after"})
_OURS = b"storekeeper-"
_CLOSED = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """A request to another node. `path` includes the query string."""

    path: str
    method: str = "GET"
    body: bytes = b""


class PeerUnavailableError(StoreUnavailableError):
    """Another node did not answer in time, or can't answer now.

    Attributes:
        answer: its answer, None if there was none.
    """

    def __init__(self, message: str, answer: Answer | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def _unsigned(_node: str, _method: str, _target: str, _body: bytes, _deadline_ms: int) -> Headers:
    return {}


class Peers:
    """Asks other nodes, each through its own connections: a node that hangs doesn't hold up requests to others.

    Belongs to one event loop. `sign` returns the headers that prove a request's origin, for node, method, target, body
    and milliseconds left. A pool of connections that `transport` makes gets requests unchanged: no redirects, cookies
    or proxies. An answer over `max_answer_bytes` is a failure.
    """

    def __init__(
        self,
        node: str,
        addresses: Callable[[], Mapping[str, str]],
        *,
        clock: Clock,
        sign: Callable[[str, str, str, bytes, int], Headers] = _unsigned,
        transport: Callable[[], httpx2.AsyncBaseTransport] = httpx2.AsyncHTTPTransport,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._node = node
        self._addresses = addresses
        self._clock = clock
        self._sign = sign
        self._new_pool = transport
        self._max_answer_bytes = max_answer_bytes
        self._health: dict[str, PeerHealth] = {}
        self._pools: dict[str, httpx2.AsyncBaseTransport] = {}

    def health(self, node: str) -> PeerHealth:
        """The health of another node as this node sees it."""
        health = self._health.get(node)
        if health is None:
            health = self._health[node] = PeerHealth(self._clock)
        return health

    def ordered(self, nodes: Sequence[str]) -> list[str]:
        """The other nodes among `nodes` that have an address, in their order, suspect ones last."""
        known = self._addresses()
        others = [node for node in nodes if node != self._node and node in known]
        return sorted(others, key=lambda node: self.health(node).suspect)

    async def ask(self, node: str, request: PeerRequest, *, deadline_s: float) -> Answer:
        """Sends one request.

        Raises:
            PeerUnavailableError: no answer in time, or one that asks to retry or to ask another node.
        """
        left_s = deadline_s - self._clock.monotonic_s()
        address = self._addresses().get(node)
        if left_s <= 0 or address is None:
            msg = f"no time is left to ask node {node}" if address else f"node {node} is not in the cluster any more"
            raise PeerUnavailableError(msg)
        health = self.health(node)
        health.trying()
        began_s = self._clock.monotonic_s()
        try:
            # One time-out for the whole request: a connection's time-outs restart with each piece of an answer.
            async with asyncio.timeout(left_s):
                answer = await self._request(node, address, request, left_s)
        except (httpx2.HTTPError, TimeoutError) as error:
            health.failed()
            log.warning("peer_did_not_answer", peer=node, error=type(error).__name__)
            raise PeerUnavailableError(f"node {node} does not answer: {type(error).__name__}") from error
        health.answered(self._clock.monotonic_s() - began_s)
        if answer.status in {421, 429} or answer.status >= 500 or _is_hop_refused(answer):
            why = AT_CAPACITY if answer.status == 429 else "can't answer now"
            detail = _detail_in(answer)
            msg = f"node {node} {why} (status {answer.status}{f': {detail}' if detail else ''})"
            raise PeerUnavailableError(msg, answer)
        return answer

    async def close(self) -> None:
        """Closes the connections."""
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()

    async def _request(self, node: str, address: str, request: PeerRequest, left_s: float) -> Answer:
        try:
            answer = await self._sent(node, address, request, left_s)
        except _CLOSED:
            # A kept connection may be closed as idle while a request is on its way. A retry is safe: all are reads.
            answer = await self._sent(node, address, request, left_s)
        try:
            body = await _bounded(answer, self._max_answer_bytes)
        finally:
            await answer.aclose()
        kept = [(name.lower(), value) for name, value in answer.headers.raw if _is_passed_on(name.lower())]
        return Answer(answer.status_code, kept, body)

    async def _sent(self, node: str, address: str, request: PeerRequest, left_s: float) -> httpx2.Response:
        """A response whose body has not been read yet."""
        # Uncompressed: a small answer must not expand to a large one here.
        headers = {HOP: self._node, "accept-encoding": "identity"}
        trace = current_trace.get()
        if trace is not None:
            headers[TRACEPARENT] = trace
        asked = httpx2.Request(
            request.method,
            address + request.path,
            content=request.body or None,
            headers=headers,
            extensions=handshake_extensions(address),
        )
        # The target is signed as it is sent: the path may have been rewritten.
        target = asked.url.raw_path.decode("ascii")
        asked.headers.update(self._sign(node, request.method, target, request.body, max(1, int(left_s * 1000))))
        return await self._pool(address).handle_async_request(asked)

    def _pool(self, address: str) -> httpx2.AsyncBaseTransport:
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools[address] = self._new_pool()
        return pool


def _is_hop_refused(answer: Answer) -> bool:
    """Whether the node has refused who asks. By its status too: a row may have any text."""
    return answer.status == HTTPStatus.FORBIDDEN and _REFUSED in answer.body[:_PROBLEM_BYTES]


async def _bounded(response: httpx2.Response, max_bytes: int) -> bytes:
    """The body, up to the limit: something that is not a node must not fill this node's memory."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > max_bytes:
            raise httpx2.RemoteProtocolError(f"its answer is over {max_bytes} bytes")
    return bytes(body)


def _detail_in(answer: Answer) -> str:
    """The problem that a refusal names, in one sentence; empty if it names none."""
    detail = _field_in(answer, "detail")
    return detail[:_DETAIL_CHARS] if isinstance(detail, str) else ""


def _field_in(answer: Answer, name: str) -> object:
    """A field of a problem document; None if there is none."""
    try:
        return orjson.loads(answer.body).get(name) if len(answer.body) <= _READ_BYTES else None
    except (orjson.JSONDecodeError, AttributeError):
        return None


def _is_passed_on(name: bytes) -> bool:
    return name in _PASSED_ON or name.startswith(_OURS)


_HEDGE_SHARE = 0.1
_HEDGE_BURST = 20.0
_MISDIRECTED = 421


class NoHolderAnsweredError(StoreUnavailableError):
    """None of the nodes that hold a partition can answer now.

    Attributes:
        asked: how many nodes were asked; 0 if no other node holds the partition.
        answers: the answers of nodes that refused.
    """

    def __init__(self, message: str, *, asked: int = 0, answers: Sequence[Answer] = ()) -> None:
        super().__init__(message)
        self.asked = asked
        self.answers = tuple(answers)


@dataclass(frozen=True, slots=True)
class HolderAnswer:
    """One node's answer for some partitions."""

    partitions: tuple[int, ...]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Scattered:
    """The answers for many partitions. `missing` are those that no node answered for.

    `reasons` say why, `refusals` are the answers of nodes that refused.
    """

    parts: tuple[HolderAnswer, ...]
    missing: tuple[int, ...]
    reasons: tuple[str, ...]
    refusals: tuple[Answer, ...] = ()


@dataclass(slots=True)
class _Query:
    """A query, its deadline, and the outcome of its attempts so far.

    Attributes:
        store: the store's name.
        request: makes the request for a set of partitions.
        deadline_s: the deadline, on the monotonic clock.
        reasons: why nodes that were asked did not answer.
        answers: the answers of nodes that refused.
        hints: holders that other nodes named, by partition.
    """

    store: str
    request: Callable[[Sequence[int]], PeerRequest]
    deadline_s: float
    reasons: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    hints: dict[int, list[str]] = field(default_factory=dict)

    def failed(self, error: PeerUnavailableError) -> None:
        """Notes a failed attempt."""
        self.reasons.append(str(error))
        if error.answer is not None:
            self.answers.append(error.answer)


@dataclass(slots=True)
class _Attempt:
    """A node to ask for some partitions, the nodes that are `asked` then, and whether there are others to ask."""

    node: str
    asked: frozenset[str]
    partitions: list[int] = field(default_factory=list)
    has_others: bool = False


class Router:
    """Sends queries on to other nodes. Belongs to one event loop.

    Attributes:
        forwarded_total: requests sent to other nodes.
        hedged_total: times that other nodes were asked because an earlier one was slow.
        corrected_total: times that another node corrected the holders.
    """

    def __init__(self, catalog: Catalog, peers: Peers) -> None:
        self._catalog = catalog
        self._peers = peers
        self._hedges_left = _HEDGE_BURST
        self.forwarded_total = 0
        self.hedged_total = 0
        self.corrected_total = 0

    async def forward(self, store: str, partition: int, request: PeerRequest, *, deadline_s: float) -> Answer:
        """The answer of another node that holds the partition, by `deadline_s` on the monotonic clock.

        Raises:
            NoHolderAnsweredError: none can answer in time; its message names the reasons.
            UnknownStoreError: if there is no such store.
            StoreRestoringError: if the node doesn't know the store's partitions yet.
        """
        query = _Query(store, lambda _: request, deadline_s)
        answers = await self._ask_holders(query, [partition], frozenset())
        if answers:
            return answers[0].answer
        why = "; ".join(query.reasons) or "none is left"
        msg = f"no replica of partition {partition} of {store} can answer now: {why}"
        raise NoHolderAnsweredError(msg, asked=len(query.reasons), answers=query.answers)

    async def scatter(
        self,
        store: str,
        partitions: Iterable[int],
        request: Callable[[Sequence[int]], PeerRequest],
        *,
        deadline_s: float,
    ) -> Scattered:
        """Asks other nodes for many partitions, each partition at one of its holders. Raises as `forward` does.

        `request` makes the request for the partitions that one node is asked for together.
        """
        numbers = sorted(set(partitions))
        query = _Query(store, request, deadline_s)
        parts = await self._ask_holders(query, numbers, frozenset())
        answered = {partition for part in parts for partition in part.partitions}
        missing = tuple(number for number in numbers if number not in answered)
        return Scattered(tuple(parts), missing, tuple(query.reasons), tuple(query.answers))

    async def _ask_holders(self, query: _Query, partitions: Sequence[int], asked: frozenset[str]) -> list[HolderAnswer]:
        """Asks for each partition at its best holder that wasn't asked yet. Partitions without one are left out."""
        attempts: dict[str, _Attempt] = {}
        for partition in partitions:
            known = self._catalog.holders(query.store, partition)
            hinted = [node for node in query.hints.get(partition, ()) if node not in known]
            holders = [node for node in self._peers.ordered([*known, *hinted]) if node not in asked]
            if holders:
                attempt = attempts.setdefault(holders[0], _Attempt(holders[0], asked | {holders[0]}))
                attempt.partitions.append(partition)
                attempt.has_others |= len(holders) > 1
        if len(attempts) == 1:
            return await self._ask_with_hedge(query, *attempts.values())
        replies = await asyncio.gather(*(self._ask_with_hedge(query, attempt) for attempt in attempts.values()))
        return [part for parts in replies for part in parts]

    async def _ask_with_hedge(self, query: _Query, attempt: _Attempt) -> list[HolderAnswer]:
        """One node's answer, or the answers of the next nodes if it is slow or can't answer."""
        request = query.request(attempt.partitions)
        first = asyncio.ensure_future(self._peers.ask(attempt.node, request, deadline_s=query.deadline_s))
        self.forwarded_total += 1
        self._hedges_left = min(_HEDGE_BURST, self._hedges_left + _HEDGE_SHARE)
        try:
            await self._wait_for(first, attempt)
            if not first.done():
                return await self._race(first, query, attempt)
            try:
                return [HolderAnswer(tuple(attempt.partitions), first.result())]
            except PeerUnavailableError as error:
                self._note_refusal(query, attempt.partitions, error)
                return await self._ask_holders(query, attempt.partitions, attempt.asked)
        finally:
            first.cancel()

    async def _wait_for(self, first: asyncio.Future[Answer], attempt: _Attempt) -> None:
        """Returns once the node has answered, or it is time to ask others as well."""
        health = self._peers.health(attempt.node)
        while not first.done():
            await asyncio.wait((first,), timeout=health.hedge_delay_s if attempt.has_others else None)
            if first.done() or health.suspect:
                return
            if self._hedges_left >= 1:
                self._hedges_left -= 1
                return

    async def _race(self, first: asyncio.Future[Answer], query: _Query, attempt: _Attempt) -> list[HolderAnswer]:
        """The first answer for all partitions: from the slow node, or from those that are asked after it."""
        self.hedged_total += 1
        second = asyncio.ensure_future(self._ask_holders(query, attempt.partitions, attempt.asked))
        try:
            await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
            if not first.done() and sum(len(part.partitions) for part in second.result()) == len(attempt.partitions):
                self._peers.health(attempt.node).failed()
                return second.result()
            try:
                return [HolderAnswer(tuple(attempt.partitions), await first)]
            except PeerUnavailableError as error:
                query.failed(error)
                return await second
        finally:
            second.cancel()

    def _note_refusal(self, query: _Query, partitions: list[int], error: PeerUnavailableError) -> None:
        """Notes a refusal; from the first one that names other holders, these are kept as hints."""
        query.failed(error)
        if error.answer is None or error.answer.status != _MISDIRECTED:
            return
        self.corrected_total += 1
        if not query.hints:
            query.hints.update(dict.fromkeys(partitions, _holders_in(error.answer)))


def _holders_in(answer: Answer) -> list[str]:
    """The holders that a 421 names."""
    names = _field_in(answer, "holders")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
