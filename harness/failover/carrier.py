"""The process that carries bytes between nodes: `python -m harness.failover.carrier`. See `proxy`.

Each line of JSON on stdin sets how one way is carried, `{"port": 20001, "target": 20002, "cut_requests": false,
"cut_answers": false, "delay_s": 0.0}`, and is answered by an empty line once it is so. It ends when stdin does.

A cut holds bytes back, as a network does: what was sent meanwhile arrives when the cut is mended, if its connection
still stands. Nothing is closed or refused, so a client that waits has to give up by itself.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from typing import Any

import uvloop

from harness.failover.proxy import Way


class Route:
    """One port and what is done to what goes through it."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.ends: set[End] = set()

    def change(self, way: Way) -> None:
        """From now on like this; what was held back goes on, if it may."""
        self.way = way
        for end in list(self.ends):
            end.release(at_once=True)


class End(asyncio.Protocol):
    """One end of a connection; what it receives goes to the end beside it, in order, late or once it may."""

    def __init__(self, route: Route, *, towards_node: bool) -> None:
        self._route = route
        self._towards_node = towards_node
        self._held: deque[tuple[float, bytes]] = deque()
        self._transport: asyncio.Transport | None = None
        self._other: End | None = None
        self._loop = asyncio.get_running_loop()
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The peer of this end is there."""
        self._transport = transport  # type: ignore[assignment]
        self._route.ends.add(self)
        if self._towards_node:
            self._connecting = self._loop.create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        """Bytes to carry."""
        delay_s = 0.0 if self._towards_node else self._route.way.delay_s
        if not self._held and not delay_s and self._may_pass() and self._other is not None:
            self._other.write(data)
            return
        self._held.append((self._loop.time() + delay_s, data))
        self._loop.call_later(delay_s, self.release)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer has closed; so is the other end once it has all."""
        self._over = True
        self.release()

    def release(self, *, at_once: bool = False) -> None:
        """Hands over what is due."""
        other = self._other
        if other is None or not self._may_pass():
            return
        while self._held and (at_once or self._held[0][0] <= self._loop.time() + 0.001):
            other.write(self._held.popleft()[1])
        if self._over and not self._held:
            self._route.ends.discard(self)
            other.close()

    def write(self, data: bytes) -> None:
        """Sends bytes to the peer of this end."""
        if self._transport is not None and not self._over:
            self._transport.write(data)

    def close(self) -> None:
        """Closes this end when all is written."""
        if self._transport is not None:
            self._transport.close()

    def _may_pass(self) -> bool:
        way = self._route.way
        return not (way.cut_requests if self._towards_node else way.cut_answers)

    async def _connect(self) -> None:
        beside = End(self._route, towards_node=False)
        try:
            await self._loop.create_connection(lambda: beside, "127.0.0.1", self._route.way.target)
        except OSError:
            self.close()
            self._route.ends.discard(self)
            return
        beside._other = self
        self._other = beside
        self.release()


async def carry() -> None:
    """Obeys stdin until it ends."""
    loop = asyncio.get_running_loop()
    routes: dict[int, Route] = {}
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        way = Way(**json.loads(line))
        route = routes.get(way.port)
        if route is None:
            route = routes[way.port] = Route(way)
            await loop.create_server(_accepting(route), "127.0.0.1", way.port)
        route.change(way)
        sys.stdout.write("\n")
        sys.stdout.flush()


def _accepting(route: Route) -> Any:
    return lambda: End(route, towards_node=True)


if __name__ == "__main__":
    uvloop.run(carry())
