"""Malformed requests are counted. A line of the log for each would let anybody fill the disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from harness.ports import free_ports
from storekeeper.node.query.http.connection import ConnectionLimits
from storekeeper.node.query.http.server import serve
from storekeeper.node.query.protection.request_counts import Traffic

MALFORMED = (
    b"\x00\x01\x02\r\n\r\n",
    b"GET /state/keyvalue/s/SECRET HTTP/9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: SECRET\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: SECRET\r\n\r\n",
)
OTHER = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"


async def application(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x"})


async def sent(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read(12)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return answer


async def answers(port: int) -> bool:
    try:
        return bool(await sent(port, OTHER))
    except OSError:
        return False


def test_they_are_counted_and_leave_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    traffic = Traffic()

    async def scenario() -> list[bytes]:
        (port,) = free_ports(1)
        stop = asyncio.Event()
        limits = ConnectionLimits(max_connections=100)
        task = asyncio.create_task(serve(application, "127.0.0.1", port, stop, limits=limits, traffic=traffic))
        async with asyncio.timeout(20):
            while not await answers(port):  # noqa: ASYNC110 - nothing tells when it listens
                await asyncio.sleep(0)
        try:
            return [await sent(port, request) for request in MALFORMED]
        finally:
            stop.set()
            await task

    assert asyncio.run(scenario()) == [b"HTTP/1.1 400"] * len(MALFORMED)
    assert traffic.refused["malformed"] == len(MALFORMED)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("uvicorn")] == []
