"""Requests to another node whose connections end when it wants them to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from state.clock import SystemClock
from state.query.forwarding.peers import PeerRequest, Peers, PeerUnavailableError
from state.trace_context import current_trace
from tests.state.test_trace_context import TRACE

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: a=b\r\ncontent-length: 2\r\n\r\n{}"


class ClosingNode:
    """Answers `answers` requests on each connection; one more is read, and then the connection is closed."""

    def __init__(self, answers: int, answer: bytes = _ANSWER) -> None:
        self.answers = answers
        self.answer = answer
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for number in range(self.answers + 1):
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if number < self.answers:
                    writer.write(self.answer)
                    await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def asking(node: ClosingNode) -> AsyncIterator[Peers]:
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    peers = Peers("a", lambda: {"b": address}, clock=SystemClock())
    try:
        yield peers
    finally:
        await peers.close()
        server.close()
        await server.wait_closed()


async def statuses(node: ClosingNode, times: int) -> list[int]:
    async with asking(node) as peers:
        return [
            (await peers.ask("b", PeerRequest("/x"), deadline_s=SystemClock().monotonic_s() + 10)).status
            for _ in range(times)
        ]


def test_a_request_on_a_connection_that_is_just_being_closed_is_sent_again() -> None:
    assert asyncio.run(statuses(ClosingNode(answers=1), times=3)) == [200, 200, 200]


def test_a_node_that_closes_every_connection_is_asked_twice_and_no_more() -> None:
    node = ClosingNode(answers=0)
    with pytest.raises(PeerUnavailableError, match="node b does not answer"):
        asyncio.run(statuses(node, times=1))
    assert len(node.heads) == 2


def test_nothing_that_a_node_answered_is_sent_with_the_next_request() -> None:
    node = ClosingNode(answers=3)
    asyncio.run(statuses(node, times=3))
    assert len(node.heads) == 3
    assert len(set(node.heads)) == 1
    assert b"cookie" not in node.heads[0].lower()


def test_a_redirect_is_an_answer_and_nothing_more() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nlocation: /y\r\ncontent-length: 0\r\n\r\n"
    node = ClosingNode(answers=2, answer=redirect)
    assert asyncio.run(statuses(node, times=1)) == [302]
    assert len(node.heads) == 1


def test_the_trace_of_the_request_goes_to_the_other_node() -> None:
    async def scenario(trace: str | None) -> bytes:
        current_trace.set(trace)
        node = ClosingNode(answers=1)
        await statuses(node, times=1)
        return node.heads[0]

    assert b"\r\ntraceparent: " + TRACE + b"\r\n" in asyncio.run(scenario(TRACE.decode()))
    assert b"traceparent" not in asyncio.run(scenario(None))
