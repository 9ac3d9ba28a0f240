"""Requests to the other nodes: only to the configured addresses, once, and within a deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx2
import structlog

from state.clock import Clock
from state.errors import StoreUnavailableError
from state.query.answer import HOP, Answer

log = structlog.get_logger(__name__)

_SUSPECT_S = 1.0
_PASSED_ON = frozenset(
    {
        b"content-type",
        b"retry-after",
        b"storekeeper-served-by",
        b"storekeeper-role",
        b"storekeeper-partition",
        b"storekeeper-offset",
        b"storekeeper-offset-lag",
    }
)


class PeerUnavailableError(StoreUnavailableError):
    """Another node did not answer in time, or can't answer now."""


class Peers:
    """Asks other nodes. A node that did not answer is asked last for a second. Belongs to one event loop."""

    def __init__(
        self,
        node: str,
        addresses: Mapping[str, str],
        *,
        timeout_ms: int,
        clock: Clock,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._node = node
        self._addresses = addresses
        self._timeout_s = timeout_ms / 1000
        self._clock = clock
        self._suspect_until_s: dict[str, float] = {}
        self._client = httpx2.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=64, keepalive_expiry=30),
            headers={HOP.decode(): node},
        )

    def deadline_s(self) -> float:
        """When a request that begins now must have its answer, on the monotonic clock."""
        return self._clock.monotonic_s() + self._timeout_s

    def ordered(self, nodes: Sequence[str]) -> list[str]:
        """The other nodes among `nodes`, in their order, those that did not answer lately last."""
        now_s = self._clock.monotonic_s()
        others = [node for node in nodes if node != self._node]
        return sorted(others, key=lambda node: self._suspect_until_s.get(node, 0.0) > now_s)

    async def ask(self, node: str, path: str, *, deadline_s: float, attempts_left: int = 1) -> Answer:
        """One request. `attempts_left` nodes, this one included, share the time until the deadline.

        Raises:
            PeerUnavailableError: no answer in time, or one that says to ask again.
        """
        left_s = deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            msg = f"no time is left to ask node {node}"
            raise PeerUnavailableError(msg)
        try:
            answer = await self._client.get(self._addresses[node] + path, timeout=left_s / attempts_left)
        except httpx2.HTTPError as error:
            self._suspect_until_s[node] = self._clock.monotonic_s() + _SUSPECT_S
            log.warning("peer_did_not_answer", peer=node, error=type(error).__name__)
            msg = f"node {node} does not answer: {type(error).__name__}"
            raise PeerUnavailableError(msg) from error
        self._suspect_until_s.pop(node, None)
        if answer.status_code in {421, 429} or answer.status_code >= 500:
            msg = f"node {node} can't answer now (status {answer.status_code})"
            raise PeerUnavailableError(msg)
        headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() in _PASSED_ON]
        return Answer(answer.status_code, headers, answer.content)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()
