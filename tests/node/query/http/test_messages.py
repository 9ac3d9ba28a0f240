"""Where a request on a connection ends, and how much of what a peer sends is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from storekeeper.node.query.http.connection import ConnectionLimits, Connections

HEAD = b"POST /k HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n"
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
INSIDE = b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
Served = list[tuple[str, bytes, list[Any]]]


def said(*parts: bytes) -> tuple[Served, bytes, dict[str, int]]:
    """The requests that the application got of these parts, all answers, and what was refused."""
    served: Served = []

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        served.append((scope["path"], body, scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> tuple[bytes, dict[str, int]]:
        connections = Connections(application, ConnectionLimits(max_head_bytes=1000), None)
        server = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.05)  # so that it arrives as a segment of its own
                answers = await reader.read()
            except ConnectionError:
                answers = b""
            writer.close()
        server.close()
        return answers, connections.traffic.refused

    answers, refused = asyncio.run(run())
    return served, answers, refused


@pytest.mark.parametrize("split", [False, True], ids=["one-segment", "two-segments"])
@pytest.mark.parametrize("body", [b'{"keys":["x"]}', INSIDE], ids=["body", "request-as-body"])
def test_a_request_that_offers_another_protocol_keeps_its_body(body: bytes, split: bool) -> None:
    """Java's HttpClient offers HTTP/2 with its first request."""
    head = HEAD % len(body) + H2C + b"\r\n"
    served, answers, _ = said(*((head, body) if split else (head + body,)), LAST)
    assert [(path, of) for path, of, _ in served] == [("/k", body), ("/last", b"")]
    assert answers.count(b"HTTP/1.1 200 OK") == 2


def test_one_that_comes_before_the_answer_to_another_is_refused() -> None:
    served, answers, refused = said(INSIDE + HEAD % len(INSIDE) + H2C + b"\r\n" + INSIDE)
    assert [path for path, _, _ in served if path != "/other"] == []
    assert len(served) <= 1
    assert b"HTTP/1.1 400" in answers
    assert refused == {"malformed": 1}
