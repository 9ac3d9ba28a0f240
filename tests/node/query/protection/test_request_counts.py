"""What a node counts of connections and refusals, and the bounds of connections."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest

from storekeeper.node import query
from storekeeper.node.query.answers.answer import Problem, TooManyRequestsError, UnknownKeyError, problem_of
from storekeeper.node.query.http.connection import Connection, ConnectionLimits, Connections
from storekeeper.node.query.observing.metrics import NodeCollector
from storekeeper.node.query.protection.request_counts import CONNECTION_REFUSALS, Traffic
from tests.node.query.in_loop import eventually_in_loop
from tests.node.query.protection.test_guard import Echo, ask, guarded
from tests.node.query.reads.test_hot import TARGET, OneNode

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def silent(_scope: dict[str, Any], _receive: Any, _send: Any) -> None:
    """Never answers."""
    await asyncio.Event().wait()


def serve(limits: ConnectionLimits, test: Callable[[Connections, int], Awaitable[None]]) -> Traffic:
    """Runs a test against a server; returns what was counted."""
    traffic = Traffic()

    async def run() -> None:
        connections = Connections(silent, limits, None, traffic)
        server = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
        try:
            await test(connections, server.sockets[0].getsockname()[1])
        finally:
            server.close()
            await connections.drain(0)

    asyncio.run(run())
    return traffic


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Waits for the end of a connection."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def opened(connections: Connections, port: int, count: int) -> list[Ends]:
    """So many connections, all accepted."""
    before = len(connections.open)
    ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    await eventually_in_loop(lambda: len(connections.open) >= before + count)
    return ends


def close(*ends: Ends) -> None:
    for _, writer in ends:
        writer.close()


def test_connections_without_a_whole_request_leave_room_for_callers() -> None:
    async def test(connections: Connections, port: int) -> None:
        connections.hot = lambda data: b"answer" if data == b"ask" else None
        (caller,) = await opened(connections, port, 1)
        caller[1].write(b"ask")
        assert await caller[0].readexactly(6) == b"answer"
        silent = await opened(connections, port, 2)
        one_more = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            assert await is_closed(caller[0]), "it has been idle longest"
        for asking in (one_more, silent[0]):
            asking[1].write(b"ask")
            assert await asking[0].readexactly(6) == b"answer"
        close(caller, one_more, *silent)

    assert serve(ConnectionLimits(max_connections=3), test).refused == {"connections": 1}


def test_blank_lines_leave_a_connection_idle() -> None:
    async def test(connections: Connections, port: int) -> None:
        ((reader, writer),) = await opened(connections, port, 1)
        (connection,) = connections.open
        began_s = connection._since_s
        writer.write(b"\r\n")
        await eventually_in_loop(lambda: sum(map(len, received)) == 2)
        writer.write(b"\n\n\r\n\r\n" * 50)
        await eventually_in_loop(lambda: sum(map(len, received)) == 302)
        assert connection._since_s == began_s
        connection.end_if_late(began_s + connections.limits.idle_s + 1)
        async with asyncio.timeout(20):
            assert await is_closed(reader)
        writer.close()

    received: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        receive = Connection.data_received

        def noted(connection: Connection, data: bytes) -> None:
            receive(connection, data)
            received.append(data)

        patch.setattr(Connection, "data_received", noted)
        assert serve(ConnectionLimits(), test).refused == {}


def test_slow_and_endless_heads_are_counted() -> None:
    async def test(connections: Connections, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nx: " + b"y" * 5000)
        assert b" 431 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
        slow_reader, slow_writer = await asyncio.open_connection("127.0.0.1", port)
        slow_writer.write(b"GET / HT")
        while not any(connection._head for connection in connections.open):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        for connection in connections.open:
            connection.end_if_late(connections.loop.time() + 60)
        with contextlib.suppress(ConnectionResetError):
            assert await slow_reader.read() == b""
        slow_writer.close()

    assert serve(ConnectionLimits(max_head_bytes=1000), test).refused == {"headers-too-large": 1, "too-slow": 1}


def test_refusals_are_counted_by_their_problem() -> None:
    traffic = Traffic()
    for error in (TooManyRequestsError("x"), TooManyRequestsError("x"), UnknownKeyError("x")):
        problem = problem_of(error)
        traffic.answered(problem.status, problem.body())
    traffic.answered(200, b"")
    traffic.answered(503, b"no problem document")
    traffic.answered(503, Problem("a made-up <kind>", 503, "x").body())
    assert traffic.refused == {"too-many-requests": 2, "other": 2}


def test_reasons_are_bounded() -> None:
    traffic = Traffic()
    for number in range(1000):
        traffic.refuse(f"reason-{number}")
    assert len(traffic.refused) <= 65


def test_the_guard_counts_its_own_refusals_and_those_of_the_application() -> None:
    guard = guarded(Echo())
    assert asyncio.run(ask(guard, "/x", [(b"host", b"evil.example.org")]))[0] == 403
    assert asyncio.run(ask(guard, "/x"))[0] == 200
    assert guard._traffic.refused == {"forbidden": 1}

    async def application(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        problem = problem_of(TooManyRequestsError("x"))
        await send({"type": "http.response.start", "status": problem.status, "headers": problem.headers()})
        await send({"type": "http.response.body", "body": problem.body()})

    guard = guarded(application)
    assert asyncio.run(ask(guard, "/x"))[0] == 429
    assert guard._traffic.refused == {"too-many-requests": 1}


def test_it_all_is_exported() -> None:
    node, traffic = OneNode(), Traffic()
    node.write((b"k", b"1"))
    assert node.hot.now(TARGET)
    assert asyncio.run(node.point.answer("rewards", b"k", forwarded=False)).status == 200
    traffic.refuse("too-slow")
    traffic.connections = 7
    text = generate_latest(NodeCollector(node.catalog, node.point, node.router, traffic=traffic)).decode()
    assert 'state_query_seconds_count{way="local"} 2.0' in text
    assert 'state_query_seconds_count{way="forwarded"} 0.0' in text
    assert 'state_refused_requests_total{reason="too-slow"} 1.0' in text
    assert "state_connections 7.0" in text


def test_every_reason_of_a_connection_is_exported_from_the_start() -> None:
    """Prometheus can't tell how much was added to a counter that it sees for the first time."""
    named: set[str] = set()
    for source in Path(query.__file__).parent.rglob("*.py"):
        named |= set(re.findall(r"(?:refuse|_close_idle)\((?:.*, )?\"([a-z-]+)\"", source.read_text()))
    assert {"handshake", "connections"} <= named
    assert named - {*CONNECTION_REFUSALS} == set()
    node = OneNode()
    lines = set(generate_latest(NodeCollector(node.catalog, node.point, node.router)).decode().splitlines())
    assert {f'state_refused_requests_total{{reason="{reason}"}} 0.0' for reason in CONNECTION_REFUSALS} <= lines
