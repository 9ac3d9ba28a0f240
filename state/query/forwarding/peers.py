"""Requests to the other nodes: only to members' addresses, within a deadline, and to a failing node last."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import httpx2
import structlog

from state.clock import Clock
from state.errors import StoreUnavailableError
from state.query.answers.answer import Answer
from state.security.hop import HOP
from state.trace_context import TRACEPARENT, current_trace

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

    def failed(self) -> None:
        """Notes that it did not answer, or that a node asked later answered first."""
        now_s = self._clock.monotonic_s()
        if now_s < self._suspect_until_s:
            return
        self._pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, self._pause_s * 2))
        self._suspect_until_s = now_s + self._pause_s

    def trying(self) -> None:
        """Notes that a request is about to try it after a pause: other requests go elsewhere for a moment."""
        if self._pause_s and not self.suspect:
            self._suspect_until_s = self._clock.monotonic_s() + _MAX_HEDGE_S


log = structlog.get_logger(__name__)

AT_CAPACITY = "answers as many requests as it may"
"""In the error's message when another node has refused a request because it has too many under way."""
_REFUSED = b'"urn:storekeeper:problem:hop-refused"'
_PROBLEM_BYTES = 64
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
        found = self._health.get(node)
        if found is None:
            found = self._health[node] = PeerHealth(self._clock)
        return found

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
            msg = f"node {node} does not answer: {type(error).__name__}"
            raise PeerUnavailableError(msg) from error
        health.answered(self._clock.monotonic_s() - began_s)
        if answer.status in {421, 429} or answer.status >= 500 or _REFUSED in answer.body[:_PROBLEM_BYTES]:
            why = AT_CAPACITY if answer.status == 429 else "can't answer now"
            msg = f"node {node} {why} (status {answer.status})"
            raise PeerUnavailableError(msg, answer)
        return answer

    async def close(self) -> None:
        """Closes the connections."""
        for pool in self._pools.values():
            await pool.aclose()
        self._pools.clear()

    async def _request(self, node: str, address: str, request: PeerRequest, left_s: float) -> Answer:
        try:
            found = await self._sent(node, address, request, left_s)
        except _CLOSED:
            # A kept connection may be closed as idle while a request is on its way. A retry is safe: all are reads.
            found = await self._sent(node, address, request, left_s)
        try:
            body = await _bounded(found, self._max_answer_bytes)
        finally:
            await found.aclose()
        kept = [(name.lower(), value) for name, value in found.headers.raw if _is_passed_on(name.lower())]
        return Answer(found.status_code, kept, body)

    async def _sent(self, node: str, address: str, request: PeerRequest, left_s: float) -> httpx2.Response:
        """A response whose body has not been read yet."""
        # Uncompressed: a small answer must not expand to a large one here.
        headers = {HOP: self._node, "accept-encoding": "identity"}
        trace = current_trace.get()
        if trace is not None:
            headers[TRACEPARENT] = trace
        asked = httpx2.Request(request.method, address + request.path, content=request.body or None, headers=headers)
        # The target is signed as it is sent: the path may have been rewritten.
        target = asked.url.raw_path.decode("ascii")
        asked.headers.update(self._sign(node, request.method, target, request.body, max(1, int(left_s * 1000))))
        return await self._pool(address).handle_async_request(asked)

    def _pool(self, address: str) -> httpx2.AsyncBaseTransport:
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools[address] = self._new_pool()
        return pool


async def _bounded(found: httpx2.Response, max_bytes: int) -> bytes:
    """The body, up to the limit: something that is no node must not fill this node's memory."""
    body = bytearray()
    async for part in found.aiter_bytes():
        body += part
        if len(body) > max_bytes:
            msg = f"its answer is over {max_bytes} bytes"
            raise httpx2.RemoteProtocolError(msg)
    return bytes(body)


def _is_passed_on(name: bytes) -> bool:
    return name in _PASSED_ON or name.startswith(_OURS)
