"""The server in front of TLS: who doesn't get on with the handshake is sent away."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from harness.certificates import make_authority
from harness.ports import free_ports
from storekeeper.node.query.http import server
from storekeeper.node.query.http.connection import ConnectionLimits
from storekeeper.node.query.http.server import _PendingConnection, serve
from storekeeper.node.query.protection.request_counts import Traffic
from tests.node.query.in_loop import eventually_in_loop


async def application(_scope: dict[str, Any], _receive: Any, _send: Any) -> None:
    """Is asked nothing."""


def open_sockets() -> int:
    """Of this process."""
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one of this look
            found += str(file.readlink()).startswith("socket:")
    return found


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def tls(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_authority(folder / "ca").issue("node"))
    return context


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext, traffic: Traffic | None = None) -> AsyncIterator[int]:
    """A server; gives its port."""
    (port,) = free_ports(1)
    stop = asyncio.Event()
    limits = ConnectionLimits(max_connections=16)
    task = asyncio.create_task(serve(application, "127.0.0.1", port, stop, tls=context, limits=limits, traffic=traffic))
    await asyncio.sleep(0)
    try:
        yield port
    finally:
        stop.set()
        await task


@needs_openssl
def test_what_was_made_before_it_listens_is_never_searched_for_garbage(tmp_path: Path) -> None:
    async def scenario() -> int:
        async with serving(tls(tmp_path)):
            return gc.get_freeze_count()

    gc.unfreeze()
    try:
        assert asyncio.run(scenario()) > 10_000
    finally:
        gc.unfreeze()


@needs_openssl
@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop])
def test_who_begins_no_handshake_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    monkeypatch.setattr(server, "_HANDSHAKE_S", 0.1)

    async def scenario() -> bytes:
        async with serving(tls(tmp_path)) as port, asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await reader.read()
            finally:
                writer.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(scenario()) == b""


@needs_openssl
@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop])
def test_half_open_handshakes_give_way_to_the_next(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    traffic = Traffic()

    async def scenario() -> None:
        async with serving(tls(tmp_path), traffic) as port, asyncio.timeout(30):
            sockets = open_sockets()
            half_open = [await asyncio.open_connection("127.0.0.1", port) for _ in range(16)]
            for _, writer in half_open:
                writer.write(b"\x16\x03\x01\x02\x00\x01")
            trusting = ssl.create_default_context(cafile=str(tmp_path / "ca" / "ca.pem"))
            _, caller = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            assert await half_open[0][0].read() == b"", "the oldest has given way"
            assert traffic.refused["connections"] == 1
            for _, writer in [*half_open, (None, caller)]:
                writer.close()
            await eventually_in_loop(lambda: open_sockets() <= sockets)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
    assert traffic.connections == 0


def test_a_connection_whose_request_came_before_it_was_taken_over_is_waited_for() -> None:
    mine, peer = socket.socketpair()
    with mine, peer:
        pending = _PendingConnection(mine, 0.0)
        silent = pending.has_unread_request
        peer.send(b"GET /")
        assert (silent, pending.has_unread_request) == (False, True)


@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop])
def test_a_request_is_answered_however_many_came_since_the_last_turn(
    loop: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    request, response = b"GET /state HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"
    limits, traffic = ConnectionLimits(), Traffic()

    def connected(port: int, sent: bytes) -> socket.socket:
        """As another process would: the loop doesn't turn in between."""
        opened = socket.create_connection(("127.0.0.1", port))
        opened.sendall(sent)
        opened.setblocking(False)
        return opened

    async def answer(caller: socket.socket) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(caller, 100)
        except ConnectionError:
            return b""

    async def scenario() -> list[bytes]:
        (port,), stop = free_ports(1), asyncio.Event()
        served = asyncio.create_task(
            serve(application, "127.0.0.1", port, stop, hot={request: response}.get, limits=limits, traffic=traffic)
        )
        await asyncio.sleep(0)
        with contextlib.ExitStack() as opened:
            for _ in range(limits.max_client_connections):
                opened.enter_context(connected(port, b"\r\n"))
            await eventually_in_loop(lambda: traffic.connections == limits.max_client_connections)
            callers = [opened.enter_context(connected(port, request)) for _ in range(400)]
            answers = await asyncio.gather(*(answer(caller) for caller in callers))
            stop.set()
            await served
        return answers

    with asyncio.Runner(loop_factory=loop) as runner:
        assert set(runner.run(scenario())) == {response}
