"""Rows of another node, asked for in front of the application: between two real servers, over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.changelog.partitioner import partition_for
from state.clock import SystemClock
from state.metrics.latency import LatencyRecorder
from state.query import hot_forward
from state.query.assignment import Assignment
from state.query.catalog import Catalog
from state.query.connection import ConnectionLimits, Connections
from state.query.definitions import parse_definitions
from state.query.hot_forward import HotForward
from state.query.hot_requests import Done, HotAnswers
from state.query.hot_route import HotRoute
from state.query.link_end import LinkEnd
from state.query.link_wire import (
    NOT_NOW,
    TAKEN,
    challenge_of,
    challenge_response,
    claims,
    hello,
    proof_request,
)
from state.query.peer_health import PeerHealth
from state.query.peer_links import PeerLinks
from state.security.caller import Caller, Role
from state.security.gate import Gate
from state.security.link_proof import CHALLENGE_BYTES, LinkProofs
from state.security.peer_address import PeerRules
from state.security.pinned_connector import PinnedConnector
from state.security.tokens import TokenBook, TokenRecord, new_token, token_digest, write_tokens
from tests.state.query.test_hot_rows import OneNode

SECRET = b"s" * 32
CLOCK = SystemClock()
ASK = b"GET /state/keyvalue/rewards/k HTTP/1.1\r\nhost: h\r\n\r\n"
TOKEN, OTHER = new_token().encode(), new_token().encode()
BY_APP = b"HTTP/1.1 404 Not Found"


async def application(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
    """Answers what nobody in front of it has answered."""
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def serving(hot: HotAnswers | None) -> AsyncIterator[tuple[Connections, int]]:
    """A server on a free port."""
    connections = Connections(application, ConnectionLimits(), hot)
    server = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
    try:
        yield connections, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await connections.drain(5)


class Asker:
    """Node `a`, which holds nothing and sends on what it is asked for to `b`."""

    def __init__(self, port: int, gate: Gate, secret: bytes = SECRET) -> None:
        self.catalog = Catalog("a", {"a": "http://127.0.0.1:1", "b": f"http://127.0.0.1:{port}"}, STORES)
        self.catalog.complete(Assignment(("b",), {"rewards": 1}, 0), {})
        self.links = PeerLinks(
            lambda: self.catalog.addresses,
            PinnedConnector(PeerRules.parse("127.0.0.0/8"), None, lambda _: []),
            LinkProofs("a", secret),
        )
        self.health = PeerHealth(CLOCK)
        self.latency = LatencyRecorder()
        self.forward = HotForward(self.catalog, self.links, lambda _: self.health, gate.name_of, self.latency)
        self.hot = HotAnswers(b"/state/keyvalue", lambda _: None, elsewhere=self.forward.ask, gate=gate)

    async def linked(self) -> None:
        """Waits until there is a link; the first request that needs one doesn't."""
        pool = self.links.to("b")
        assert pool is not None
        pool.ask(b"", lambda _: None, 1)
        assert pool._connecting is not None
        await pool._connecting

    async def close(self) -> None:
        """Closes the links."""
        self.links.close()
        await asyncio.sleep(0)  # the transports are closed in the next turn of the loop


STORES = parse_definitions("rewards=t")


def owner(node: OneNode, gate: Gate | None = None) -> HotAnswers:
    """What node `b`, which has the rows, answers."""
    hot = HotRoute(node.point, None).hot_answers
    return replace(hot, gate=gate or Gate(), links=LinkProofs("b", SECRET))


async def exchange(port: int, data: bytes, until: bytes) -> bytes:
    """Everything that comes back, up to something."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(20):
        found = await reader.readuntil(until)
    writer.close()
    await writer.wait_closed()
    return found


def play(
    test: Callable[[Asker, int], Awaitable[None]], hot: HotAnswers | None, gate: Gate | None = None, **asker: Any
) -> None:
    """Runs a test with both nodes; it is given the asker and its port."""

    async def both() -> None:
        async with serving(hot) as (_, port):
            asking = Asker(port, gate or Gate(), **asker)
            async with serving(asking.hot) as (_, asked):
                await asking.linked()
                await test(asking, asked)
            await asking.close()

    asyncio.run(both())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow, not a node that hangs."""
    monkeypatch.setattr(hot_forward, "_PATIENCE_S", 20)


@pytest.fixture
def node() -> OneNode:
    found = OneNode()
    found.write((b"k", b'{"n":1}'), (b"k2", b"2"))
    return found


def test_the_other_nodes_answer_is_passed_on_as_it_is(node: OneNode) -> None:
    async def test(asker: Asker, port: int) -> None:
        for number in range(1, 4):
            found = await exchange(port, ASK, b'{"n":1}}')
            assert found.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            assert b"storekeeper-offset: 2\r\n" in found
            assert asker.latency.count == number
        none = await exchange(port, ASK.replace(b"/k ", b"/none "), b"}")
        assert b"storekeeper-offset: 2\r\n" in none
        assert asker.latency.count == 4

    play(test, owner(node))


@pytest.mark.parametrize(
    ("key", "told"), [(b"EU%7Ck", b"EU|k"), (b"a%2Fb%20c", b"a/b c"), (b"%C3%A9", b"\xc3\xa9")], ids=str
)
def test_a_key_that_is_escaped_is_passed_on_as_any_other_is(node: OneNode, key: bytes, told: bytes) -> None:
    node.write((told, b'{"n":2}'), (key, b'{"n":3}'))

    async def test(asker: Asker, port: int) -> None:
        found = await exchange(port, ASK.replace(b"/k ", b"/%b " % key), b"}}")
        assert found.startswith(b"HTTP/1.1 200 OK\r\n")
        assert found.endswith(b'"value":{"n":2}}')
        assert asker.latency.count == 1

    play(test, owner(node))


def test_an_escaped_key_is_asked_for_where_the_key_itself_is(node: OneNode) -> None:
    both = Assignment(("a", "b"), {"rewards": 8}, 0)
    found = {key: both.holders("rewards", partition_for(key, 8)) for key in (b"k|%d" % n for n in range(100))}
    key = next(
        key
        for key, holders in found.items()
        if holders == ["b"] and both.holders("rewards", partition_for(key.replace(b"|", b"%7C"), 8)) == ["a"]
    )
    node.write((key, b"1"))

    async def test(asker: Asker, port: int) -> None:
        asker.catalog.complete(both, {})
        response = await exchange(port, ASK.replace(b"/k ", b"/%b " % key.replace(b"|", b"%7C")), b"1}")
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")

    play(test, owner(node))


class Recorded(asyncio.Transport):
    """A client's end: keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = self.reading = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def test_a_slow_greeting_ends_as_any_slow_request_does() -> None:
    async def test() -> None:
        hot = HotAnswers(b"/state/keyvalue", lambda _: None, links=LinkProofs("b", SECRET))
        connection = Connections(application, ConnectionLimits(request_s=20, idle_s=90), hot)()
        connection.connection_made(transport := Recorded())
        began_s, greeting = asyncio.get_running_loop().time(), hello(b"h")
        connection.data_received(greeting[:-4])
        connection.end_if_late(began_s + 15)
        assert not transport.closed
        connection.data_received(greeting[-4:-3])
        connection.end_if_late(began_s + 30)
        assert transport.closed

    asyncio.run(test())


def test_what_comes_behind_waits_for_its_turn() -> None:
    async def test() -> None:
        pending: list[tuple[bytes, Done]] = []

        def elsewhere(target: bytes, _caller: Caller | None, done: Done) -> bool:
            pending.append((target, done))
            return True

        hot = HotAnswers(b"/state/keyvalue", lambda _: None, elsewhere=elsewhere)
        connection = Connections(application, ConnectionLimits(max_head_bytes=100), hot)()
        connection.connection_made(transport := Recorded())
        connection.data_received(ASK)
        connection.data_received(ASK[:10])
        connection.data_received(ASK[10:])
        assert len(pending) == 1
        connection.data_received(b"")
        pending[0][1](b"first")
        assert transport.written == [b"first"]
        assert len(pending) == 2
        connection.data_received(b"x" * 200)
        assert not transport.reading  # what waits is bounded
        connection.eof_received()
        pending[1][1](b"second")
        assert transport.written[:2] == [b"first", b"second"]
        assert b" 431 " in transport.written[2]
        assert transport.closed
        pending[1][1](b"late")
        assert len(transport.written) == 3

    asyncio.run(test())


def test_many_requests_share_few_links(node: OneNode) -> None:
    async def test(asker: Asker, port: int) -> None:
        found = await asyncio.gather(*(exchange(port, ASK, b'{"n":1}}') for _ in range(200)))
        assert len(found) == 200
        pool = asker.links.to("b")
        assert pool is not None
        assert len(pool._links) <= 32

    play(test, owner(node))


def test_a_caller_without_the_secret_is_left_to_the_application(node: OneNode) -> None:
    async def test(asker: Asker, port: int) -> None:
        assert (await exchange(port, ASK, b"\r\n\r\n")).startswith(BY_APP)
        assert asker.latency.count == 0

    play(test, owner(node), secret=b"x" * 32)


CLAIMED = claims(b"a", b"*anonymous", 1000)
LINKED = b"GET /state/keyvalue/rewards/k HTTP/1.1\r\nhost: h\r\n" + CLAIMED + b"\r\n"


def test_who_only_says_what_a_node_says_is_left_to_the_application(node: OneNode, tmp_path: Path) -> None:
    """Also after a node has said the very same on its link: what is remembered of that is the link's."""
    write_tokens(tmp_path / "tokens", [TokenRecord(Caller("all", frozenset({Role.READER})), token_digest(TOKEN))])
    gate = Gate(TokenBook(tmp_path / "tokens", CLOCK))
    said = LINKED.replace(b"*anonymous", b"*node")

    async def test() -> None:
        async with serving(owner(node, gate)) as (_, port):
            reader, writer = await proven(port)
            for _ in range(2):
                writer.write(said)
                assert (await reader.readuntil(b'{"n":1}}')).startswith(b"HTTP/1.1 200 OK")
                assert (await exchange(port, said, b"\r\n\r\n")).startswith(BY_APP)
            writer.close()
            await writer.wait_closed()

    asyncio.run(test())


async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes another node's proof, as node `b`."""
    link = LinkEnd(LinkProofs("b", SECRET), lambda _node, _data: None)
    for _ in range(2):
        response = link.response(await reader.readuntil(b"\r\n\r\n"))
        assert response is not None
        writer.write(response)


async def proven(port: int, node: str = "a") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that bears the proof of a node."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(hello(b"h"))
    challenge = challenge_of(await reader.readexactly(len(challenge_response(b"0" * CHALLENGE_BYTES))))
    assert challenge is not None
    proofs = LinkProofs(node, SECRET)
    writer.write(proof_request(b"h", proofs.node, proofs.answer(challenge, b"b")))
    assert await reader.readexactly(len(TAKEN)) == TAKEN
    return reader, writer


@pytest.mark.parametrize(
    "request_",
    [
        LINKED.replace(b"hop: a", b"hop: c"),
        LINKED.replace(b"rewards", b"others"),
        LINKED.replace(b"host: h", b"host: h\r\ncookie: x"),
        LINKED.replace(CLAIMED, b""),
        LINKED.replace(b"/state/keyvalue/", b"/internal/scan/"),
        LINKED.replace(b"GET", b"POST"),
    ],
    ids=["as another node", "another store", "a line too many", "no claims", "another path", "another method"],
)
def test_a_link_carries_only_what_has_a_hot_answer(node: OneNode, request_: bytes) -> None:
    async def test() -> None:
        async with serving(owner(node)) as (_, port):
            reader, writer = await proven(port)
            writer.write(request_)
            assert await reader.readexactly(len(NOT_NOW)) == NOT_NOW
            writer.write(LINKED)  # the link goes on
            assert (await reader.readuntil(b'{"n":1}}')).startswith(b"HTTP/1.1 200 OK")
            writer.close()
            await writer.wait_closed()

    asyncio.run(test())


def test_the_owner_looks_the_callers_rights_up_again(node: OneNode, tmp_path: Path) -> None:
    def gate(name: str, callers: Mapping[bytes, Caller]) -> Gate:
        write_tokens(tmp_path / name, [TokenRecord(caller, token_digest(token)) for token, caller in callers.items()])
        return Gate(TokenBook(tmp_path / name, CLOCK))

    reads, readers = Caller("all", frozenset({Role.READER})), frozenset({Role.READER})
    here = gate("a", {TOKEN: reads, OTHER: Caller("one", readers)})
    there = gate("b", {TOKEN: reads, OTHER: Caller("one", readers, frozenset({"another"}))})

    async def test(asker: Asker, port: int) -> None:
        assert (await exchange(port, ASK, b"\r\n\r\n")).startswith(BY_APP)
        asked = ASK[:-2] + b"authorization: Bearer %b\r\n\r\n"
        assert (await exchange(port, asked % TOKEN, b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert (await exchange(port, asked % OTHER, b"\r\n\r\n")).startswith(BY_APP)
        assert asker.latency.count == 1

    play(test, owner(node, there), here)


@pytest.mark.parametrize(
    "told",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 302 Found\r\nlocation: http://example.org/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        b"x" * 100_000,
        b"",
    ],
    ids=["another type", "a redirect", "an error", "no HTTP", "an end"],
)
@pytest.mark.parametrize("introduced", [True, False])
def test_any_other_answer_is_left_to_the_application(told: bytes, introduced: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if introduced:
            await take(reader, writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(told)
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        asking = Asker(server.sockets[0].getsockname()[1], Gate())
        async with serving(asking.hot) as (_, port):
            await asking.linked()
            assert (await exchange(port, ASK, b"\r\n\r\n")).startswith(BY_APP)
        await asking.close()
        server.close()

    asyncio.run(test())


@pytest.mark.parametrize("others", [0, 1])
def test_a_node_that_hangs_is_left_to_the_application_soon(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    monkeypatch.setattr(hot_forward, "_PATIENCE_S", 0.02)

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take(reader, writer)
        while await reader.read(1000):
            pass
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(swallow, "127.0.0.1", 0)
        asking = Asker(server.sockets[0].getsockname()[1], Gate())
        asking.catalog.complete(Assignment(("b", "c", "d")[: 1 + others], {"rewards": 1}, others), {})
        async with serving(asking.hot) as (_, port):
            await asking.linked()
            found = await asyncio.gather(*(exchange(port, ASK, b"\r\n\r\n") for _ in range(5)))
            assert all(answer.startswith(BY_APP) for answer in found)
            # Only if there is another holder is it of use to ask this one last.
            assert asking.health.suspect == (others > 0)
        await asking.close()
        server.close()

    asyncio.run(test())


def test_a_suspect_node_is_left_to_the_router(node: OneNode) -> None:
    async def test(asker: Asker, port: int) -> None:
        asker.health.failed()
        assert (await exchange(port, ASK, b"\r\n\r\n")).startswith(BY_APP)

    play(test, owner(node))


def test_an_address_that_the_rules_forbid_is_not_connected_to() -> None:
    async def test() -> None:
        asking = Asker(1, Gate())
        asking.links = PeerLinks(
            lambda: {"b": "http://10.0.0.1:20000"},
            PinnedConnector(PeerRules.parse("127.0.0.0/8"), None, lambda _: []),
            LinkProofs("a", SECRET),
        )
        pool = asking.links.to("b")
        assert pool is not None
        assert not pool.ask(b"", lambda _: None, 1)
        assert pool._connecting is not None
        await pool._connecting
        assert not pool._links
        assert not pool.ask(b"", lambda _: None, 1)
        assert pool._connecting is None  # not again at once

    asyncio.run(test())
