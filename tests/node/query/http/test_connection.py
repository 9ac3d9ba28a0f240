"""No connection is closed while a request of its peer waits to be read, however late the loop is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from storekeeper.node.query.http.connection import Connection, ConnectionLimits, Connections, HotAnswer

REQUEST = b"GET /k HTTP/1.1\r\nHost: a\r\n\r\n"
OK = b"HTTP/1.1 200 OK"
IDLE_S = 5.0
Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
WAYS = pytest.mark.parametrize(
    "hot",
    [None, lambda data: OK + b"\r\ncontent-length: 0\r\n\r\n" if data == REQUEST else None],
    ids=["app", "hot"],
)


async def application(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Later:
    """A loop whose clock is ahead of the real one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ahead_s = 0.0
        self._loop = loop

    def time(self) -> float:
        return self._loop.time() + self.ahead_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Peer:
    """A client that asks when it is told to, whatever the loop does."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)

    def ask(self, request: bytes = REQUEST) -> None:
        assert self.socket.send(request) == len(request)

    async def heard(self) -> bytes:
        """The first line of an answer, or nothing from a connection that was closed."""
        return (await asyncio.get_running_loop().sock_recv(self.socket, 4096)).split(b"\r\n")[0]


def served(loop: Loop, hot: HotAnswer | None, scenario: Callable[[Connections, Later, Peer], Awaitable[None]]) -> None:
    async def run() -> None:
        connections = Connections(application, ConnectionLimits(idle_s=IDLE_S), hot)
        running = asyncio.get_running_loop()
        clock = Later(running)
        connections.loop = clock  # type: ignore[assignment]
        server = await running.create_server(connections, "127.0.0.1", 0)
        peer = Peer(server.sockets[0].getsockname()[1])
        async with asyncio.timeout(20):
            peer.ask()
            assert await peer.heard() == OK
            await scenario(connections, clock, peer)
        peer.socket.close()
        server.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@LOOPS
@WAYS
def test_a_request_that_waits_to_be_read_is_answered_after_any_rest(loop: Loop, hot: HotAnswer | None) -> None:
    async def scenario(connections: Connections, clock: Later, peer: Peer) -> None:
        clock.ahead_s = 2 * IDLE_S
        peer.ask()
        connections.sweep()
        assert await peer.heard() == OK
        clock.ahead_s = 4 * IDLE_S
        connections.sweep()
        assert await peer.heard() == b"", "it rested"

    served(loop, hot, scenario)


@LOOPS
@WAYS
def test_the_rest_counts_from_the_last_request_and_not_from_the_last_sweep(loop: Loop, hot: HotAnswer | None) -> None:
    async def scenario(connections: Connections, clock: Later, peer: Peer) -> None:
        connections.sweep()
        clock.ahead_s = IDLE_S - 1
        peer.ask()
        assert await peer.heard() == OK
        clock.ahead_s = IDLE_S + 1
        connections.sweep()
        peer.ask()
        assert await peer.heard() == OK

    served(loop, hot, scenario)


@LOOPS
@WAYS
def test_a_request_that_has_arrived_is_answered_by_a_server_that_stops(loop: Loop, hot: HotAnswer | None) -> None:
    async def scenario(connections: Connections, _clock: Later, peer: Peer) -> None:
        peer.ask()
        _, heard = await asyncio.gather(connections.drain(10), peer.heard())
        assert heard == OK

    served(loop, hot, scenario)


async def newcomer(connections: Connections, peer: Peer) -> tuple[Peer, Connection]:
    """One more connection that the server has accepted, and has read nothing from."""
    before = set(connections.open)
    new = Peer(peer.socket.getpeername()[1])
    await turned(peer)
    (made,) = connections.open - before
    return new, made


async def turned(peer: Peer) -> None:
    """The loop has taken what had arrived before: it has answered two requests that came later."""
    for _ in range(2):
        peer.ask()
        assert await peer.heard() == OK


@LOOPS
@WAYS
def test_the_first_request_of_a_newcomer_is_not_cut_off_before_it_is_read(loop: Loop, hot: HotAnswer | None) -> None:
    async def scenario(connections: Connections, _clock: Later, peer: Peer) -> None:
        new, made = await newcomer(connections, peer)
        waited_for = [made.has_unread_request]
        new.ask()
        waited_for.append(made.has_unread_request)
        assert await new.heard() == OK
        waited_for.append(made.has_unread_request)
        assert waited_for == [False, True, False]
        new.socket.close()

    served(loop, hot, scenario)


@LOOPS
@WAYS
def test_who_sends_blank_lines_or_half_a_request_is_not_waited_for(loop: Loop, hot: HotAnswer | None) -> None:
    async def scenario(connections: Connections, _clock: Later, peer: Peer) -> None:
        for said in (b"\r\n\r\n", REQUEST[:-2]):
            new, made = await newcomer(connections, peer)
            new.ask(said)
            await turned(peer)
            new.ask(said)
            assert not made.has_unread_request
            new.socket.close()

    served(loop, hot, scenario)
