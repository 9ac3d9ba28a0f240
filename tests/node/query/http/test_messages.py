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
            if message["type"] == "http.disconnect":
                return
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


def test_requests_without_end_before_an_answer_end_the_connection() -> None:
    served, _, refused = said(INSIDE * 1000)
    assert len(served) <= 1
    assert refused == {"too-many-pipelined": 1}


def test_some_requests_may_come_before_an_answer() -> None:
    served, answers, refused = said(INSIDE * 50 + LAST)
    assert len(served) == answers.count(b"HTTP/1.1 200 OK") == 51
    assert refused == {}


CHUNKED = b"POST /k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_trailers_are_no_headers() -> None:
    served, _, refused = said(CHUNKED + b"1\r\nx\r\n0\r\n", b"Late: 1\r\n\r\n", LAST)
    assert [(path, body) for path, body, _ in served] == [("/k", b"x"), ("/last", b"")]
    assert b"late" not in dict(served[0][2])
    assert refused == {}


@pytest.mark.parametrize("trailers", [b"a:b\r\n" * 100, b"a" * 500], ids=["many", "long"])
def test_trailers_without_end_are_refused(trailers: bytes) -> None:
    served, answers, refused = said(CHUNKED + b"1\r\nx\r\n0\r\n", *[trailers] * 6)
    assert served == []
    assert refused == {"headers-too-large": 1}
    assert answers.startswith(b"HTTP/1.1 431") or not answers


def test_a_long_body_in_chunks_is_no_head() -> None:
    chunk = b"1f4\r\n" + b"x" * 500 + b"\r\n"
    served, _, refused = said(CHUNKED, *[chunk[:5], chunk[5:]] * 6, b"0\r\n\r\n" + LAST)
    assert [(path, len(body)) for path, body, _ in served] == [("/k", 3000), ("/last", 0)]
    assert refused == {}
