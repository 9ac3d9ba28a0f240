"""Kept connections to other nodes for the question that is asked most: one row, sent on the moment it arrives.

A link carries one request at a time, and takes as an answer only what another node's hot answer looks like. Everything
else (no link is there, none answers in a moment, another kind of answer) is left to the router, which asks again and
knows whom else to ask. So a link needs neither retries nor a judgement of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from state.query.hot_requests import Done
from state.query.hot_rows import NONE, OK
from state.query.local_origin import SAFE
from state.security.pinned_connector import Endpoint

log = structlog.get_logger(__name__)

_ANSWER = re.compile(
    rb"(?:%b|%b)%b(?:storekeeper-[a-z-]+: [\x20-\x7e]*\r\n)+content-length: ([0-9]{1,9})\r\n\r\n"
    % tuple(map(re.escape, (OK, NONE, SAFE)))
)
"""The head of a hot answer, exactly: whatever else a node might say is not passed on unread."""
_HEAD_BYTES = 16_384
_MOST_LINKS = 32
_MOST_WAITING = 256
_PAUSE_S = 1.0


class Connector(Protocol):
    """Checks a node's address."""

    async def __call__(self, address: str) -> Endpoint:
        """Where to connect to. Raises StateError or OSError if nowhere."""
        ...


class PeerLinks:
    """Links to all other nodes. Belongs to one event loop.

    Args:
        addresses: gives the base address by node name as of now.
        connector: checks an address before each connection.
        patience_s: an answer that is not there after this, or twice this at most, is not waited for.
    """

    def __init__(
        self, addresses: Callable[[], Mapping[str, str]], connector: Connector, *, patience_s: float = 0.1
    ) -> None:
        self._addresses = addresses
        self._patience_s = patience_s
        self._connector = connector
        self._pools: dict[str, Pool] = {}

    def to(self, node: str) -> Pool | None:
        """The links to a node; None if it is not in the cluster."""
        address = self._addresses().get(node)
        if address is None:
            return None
        pool = self._pools.get(address)
        if pool is None:
            self._forget_others()
            pool = self._pools[address] = Pool(address, self._connector, self._patience_s)
        return pool

    def close(self) -> None:
        """Closes all links."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _forget_others(self) -> None:
        known = set(self._addresses().values())
        for address in [address for address in self._pools if address not in known]:
            self._pools.pop(address).close()


class Pool:
    """The links to one address. `host` is what the `Host` header of a request has to say."""

    def __init__(self, address: str, connector: Connector, patience_s: float) -> None:
        self.host = address.partition("://")[2].rstrip("/").encode()
        self._address = address
        self._connector = connector
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._idle: list[Link] = []
        self._links: set[Link] = set()
        self._waiting: deque[tuple[float, bytes, Done]] = deque()
        self._connecting: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._not_before_s = 0.0
        self._closed = False

    def ask(self, request: bytes, done: Done) -> bool:
        """Sends a request, or lets it wait for a link. Calls `done` once, later; never, if this returns False."""
        if not self._idle:
            self._grow()
            if not self._links or len(self._waiting) >= _MOST_WAITING:
                return False
            self._waiting.append((self._now_s(), request, done))
            return True
        self._idle.pop().ask(request, done, self._now_s())
        return True

    def idle(self, link: Link) -> None:
        """A link is there for the next request."""
        if self._waiting:
            asked_s, request, done = self._waiting.popleft()
            link.ask(request, done, asked_s)
        else:
            self._idle.append(link)

    def lost(self, link: Link) -> None:
        """A link is there no longer."""
        self._links.discard(link)
        if link in self._idle:
            self._idle.remove(link)
        if not self._links:
            self._give_up(self._loop.time())

    def close(self) -> None:
        """Closes all links."""
        self._closed = True
        for handle in (self._connecting, self._watching):
            if handle is not None:
                handle.cancel()
        for link in list(self._links):
            link.close()
        self._give_up(self._loop.time())

    def _grow(self) -> None:
        due = self._loop.time() >= self._not_before_s
        if self._connecting is None and len(self._links) < _MOST_LINKS and due and not self._closed:
            self._connecting = self._loop.create_task(self._connect())

    def _now_s(self) -> float:
        if self._watching is None:
            self._watching = self._loop.call_later(self._patience_s, self._look)
        return self._loop.time()

    def _look(self) -> None:
        """Ends what takes too long. One timer for all, as a request must not cost one."""
        self._watching = None
        since_s = self._loop.time() - self._patience_s
        self._give_up(since_s)
        for link in list(self._links):
            link.close_if_asked_before(since_s)
        if len(self._idle) < len(self._links):
            self._now_s()

    def _give_up(self, since_s: float) -> None:
        while self._waiting and self._waiting[0][0] <= since_s:
            self._waiting.popleft()[2](None)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(_PAUSE_S):
                end = await self._connector(self._address)
                _, link = await self._loop.create_connection(
                    lambda: Link(self), end.ip, end.port, ssl=end.tls, server_hostname=end.server_name
                )
        except Exception as error:
            # The router meets the same, and tells it.
            self._not_before_s = self._loop.time() + _PAUSE_S
            log.debug("peer_link_not_made", error=type(error).__name__)
        else:
            if self._closed:
                link.close()
            else:
                self._links.add(link)
                self.idle(link)
        finally:
            self._connecting = None


class Link(asyncio.Protocol):
    """One connection, one request at a time."""

    __slots__ = ("_asked_s", "_buffer", "_done", "_pool", "_transport")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport
        self._buffer = b""
        self._done: Done | None = None
        self._asked_s = 0.0

    def ask(self, request: bytes, done: Done, asked_s: float) -> None:
        """Sends a request, and calls `done` once, never before this returns."""
        self._done = done
        self._asked_s = asked_s
        self._transport.write(request)

    def close_if_asked_before(self, since_s: float) -> None:
        """Gives an answer up that is not there yet."""
        if self._done is not None and self._asked_s <= since_s:
            self.close()

    def close(self) -> None:
        """Ends the connection; a request under way has no answer."""
        self._transport.abort()
        self._finish(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """The other node is gone, or has closed an idle connection."""
        self._pool.lost(self)
        self._finish(None)

    def data_received(self, data: bytes) -> None:
        """Some of the answer."""
        if self._done is None:
            self.close()  # nobody has asked
            return
        if self._buffer:
            data = self._buffer + data
        head = _ANSWER.match(data)
        if head is None:
            self._buffer = data
            if b"\r\n\r\n" in data or len(data) > _HEAD_BYTES:
                self.close()
            return
        length = head.end() + int(head[1])
        if len(data) < length:
            self._buffer = data
        elif len(data) > length:
            self.close()
        else:
            self._buffer = b""
            self._finish(data)
            self._pool.idle(self)

    def _finish(self, response: bytes | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(response)
