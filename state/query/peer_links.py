"""Kept connections to other nodes for the question that is asked most: one row, sent on the moment it arrives.

A link is proven to the other node when it is made. It carries one request at a time, and takes as an answer only what
another node's hot answer looks like. Everything else (no link is there, none answers in a moment, another kind of
answer) is left to the router, which asks again and knows whom else to ask. So a link needs neither retries nor a
judgement of its own.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from state.query.hot_requests import Done
from state.query.hot_rows import NONE, OK
from state.query.link_introduction import Introduction
from state.query.link_wire import MOST_BYTES, NOT_NOW, claims
from state.query.local_origin import SAFE
from state.security.link_proof import LinkProofs
from state.security.pinned_connector import Endpoint

log = structlog.get_logger(__name__)

_ANSWER = re.compile(
    rb"(?:%b|%b)%b(?:storekeeper-[a-z-]+: [\x20-\x7e]*\r\n)+content-length: ([0-9]{1,9})\r\n\r\n"
    % tuple(map(re.escape, (OK, NONE, SAFE)))
)
"""The head of a hot answer, exactly: whatever else a node might say is not passed on unread."""
_MOST_LINKS = 32
_MOST_WAITING = 256
_BLOCKS = 512
_DEADLINE_MS = 1000
_LOOK_EVERY_S = 0.01
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
        proofs: prove each connection to the other node.
    """

    def __init__(self, addresses: Callable[[], Mapping[str, str]], connector: Connector, proofs: LinkProofs) -> None:
        self._addresses = addresses
        self._connector = connector
        self._proofs = proofs
        self._pools: dict[tuple[str, str], Pool] = {}

    def to(self, node: str) -> Pool | None:
        """The links to a node; None if it is not in the cluster."""
        address = self._addresses().get(node)
        if address is None:
            return None
        pool = self._pools.get((node, address))
        if pool is None:
            self._forget_others()
            pool = self._pools[node, address] = Pool(node, address, self._connector, self._proofs)
        return pool

    def close(self) -> None:
        """Closes all links."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _forget_others(self) -> None:
        known = self._addresses().items()
        for place in [place for place in self._pools if place not in known]:
            self._pools.pop(place).close()


class Pool:
    """The links to one node at one address."""

    def __init__(self, node: str, address: str, connector: Connector, proofs: LinkProofs) -> None:
        self._node = node.encode("latin-1", "replace")
        self._host = address.partition("://")[2].rstrip("/").encode()
        self._address = address
        self._connector = connector
        self._proofs = proofs
        self._blocks: dict[str, bytes] = {}
        self._loop = asyncio.get_running_loop()
        self._idle: list[Link] = []
        self._links: set[Link] = set()
        self._waiting: deque[tuple[float, bytes, Done]] = deque()
        self._connecting: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._not_before_s = 0.0
        self._closed = False

    def block(self, caller: str) -> bytes:
        """What a request for a caller has behind its target: the same lines each time."""
        block = self._blocks.get(caller)
        if block is None:
            lines = claims(self._proofs.node, caller.encode("latin-1", "replace"), _DEADLINE_MS)
            block = b" HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (self._host, lines)
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            self._blocks[caller] = block
        return block

    def ask(self, request: bytes, done: Done, patience_s: float) -> bool:
        """Sends a request, or lets it wait for a link. Calls `done` once, later; never, if this returns False.

        An answer that is not there after `patience_s`, or a little later, is not waited for.
        """
        until_s = self._loop.time() + patience_s
        if self._idle:
            self._watch()
            self._idle.pop().ask(request, done, until_s)
            return True
        self._grow()
        if not self._links or len(self._waiting) >= _MOST_WAITING:
            return False
        self._watch()
        self._waiting.append((until_s, request, done))
        return True

    def idle(self, link: Link) -> None:
        """A link is there for the next request."""
        if self._waiting:
            until_s, request, done = self._waiting.popleft()
            link.ask(request, done, until_s)
        else:
            self._idle.append(link)

    def lost(self, link: Link) -> None:
        """A link is there no longer."""
        self._links.discard(link)
        if link in self._idle:
            self._idle.remove(link)
        if not self._links:
            self._give_up(math.inf)

    def close(self) -> None:
        """Closes all links."""
        self._closed = True
        for handle in (self._connecting, self._watching):
            if handle is not None:
                handle.cancel()
        for link in list(self._links):
            link.close()
        self._give_up(math.inf)

    def _grow(self) -> None:
        due = self._loop.time() >= self._not_before_s
        if self._connecting is None and len(self._links) < _MOST_LINKS and due and not self._closed:
            self._connecting = self._loop.create_task(self._connect())

    def _watch(self) -> None:
        if self._watching is None:
            self._watching = self._loop.call_later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """Ends what takes too long. One timer for all, as a request must not cost one."""
        self._watching = None
        now_s = self._loop.time()
        self._give_up(now_s)
        for link in list(self._links):
            link.close_if_late(now_s)
        if self._waiting or len(self._idle) < len(self._links):
            self._watch()

    def _give_up(self, now_s: float) -> None:
        late = [waiting for waiting in self._waiting if waiting[0] <= now_s]
        if late:
            self._waiting = deque(waiting for waiting in self._waiting if waiting[0] > now_s)
        for _, _, done in late:
            done(None)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(_PAUSE_S):
                end = await self._connector(self._address)
                link = await self._introduced(end)
        except Exception as error:
            # The router meets the same, and tells it.
            self._not_before_s = self._loop.time() + _PAUSE_S
            log.debug("peer_link_not_made", error=type(error).__name__)
        else:
            if self._closed or link.is_closing:
                link.close()
            else:
                self._links.add(link)
                self.idle(link)
        finally:
            self._connecting = None

    async def _introduced(self, end: Endpoint) -> Link:
        """A new link. Raises OSError if the other node would not have it."""
        transport, introduction = await self._loop.create_connection(
            lambda: Introduction(self._host, self._node, self._proofs, lambda transport: Link(self, transport)),
            end.ip,
            end.port,
            ssl=end.tls,
            server_hostname=end.server_name,
        )
        try:
            return await introduction.taken
        except BaseException:
            transport.abort()
            raise


class Link(asyncio.Protocol):
    """One connection, one request at a time."""

    __slots__ = ("_buffer", "_done", "_pool", "_transport", "_until_s")

    def __init__(self, pool: Pool, transport: asyncio.Transport) -> None:
        self._pool = pool
        self._transport = transport
        self._buffer = b""
        self._done: Done | None = None
        self._until_s = 0.0

    @property
    def is_closing(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._transport.is_closing()

    def ask(self, request: bytes, done: Done, until_s: float) -> None:
        """Sends a request, and calls `done` once, never before this returns."""
        self._done = done
        self._until_s = until_s
        self._transport.write(request)

    def close_if_late(self, now_s: float) -> None:
        """Gives an answer up that was not there in time."""
        if self._done is not None and self._until_s <= now_s:
            self.close()

    def close(self) -> None:
        """Ends the connection; a request under way has no answer."""
        self._transport.abort()
        self._finish(None)

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
            if data == NOT_NOW:
                self._answered(None)
                return
            self._buffer = data
            if b"\r\n\r\n" in data or len(data) > MOST_BYTES:
                self.close()
            return
        length = head.end() + int(head[1])
        if len(data) < length:
            self._buffer = data
        elif len(data) > length:
            self.close()
        else:
            self._answered(data)

    def _answered(self, response: bytes | None) -> None:
        self._buffer = b""
        self._finish(response)
        self._pool.idle(self)

    def _finish(self, response: bytes | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(response)
