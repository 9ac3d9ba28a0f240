"""The way to other nodes: the next one when the first refuses, is slow, or knows better who has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import httpx2
import orjson
import pytest

from storekeeper.clock import ManualClock, SystemClock
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.answers.answer import problem_of
from storekeeper.node.query.forwarding import (
    NoHolderAnsweredError,
    PeerHealth,
    PeerRequest,
    Peers,
    PeerUnavailableError,
    Router,
)
from storekeeper.node.security.hop import HopRefusedError
from storekeeper.stores.store_definitions import StoreDefinition
from storekeeper.trace_context import current_trace
from tests.silent_peer import SilentPeer, silent_peer
from tests.test_trace_context import TRACE

Answering = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
NODES = ("a", "b", "c", "d")
ADDRESSES = {node: f"http://127.0.0.1:{2000 + number}" for number, node in enumerate(NODES)}
HOLDERS = Assignment(NODES, {"s": 4}, 2).holders("s", 0)
QUESTION = PeerRequest("/x")


class Network(httpx2.AsyncBaseTransport):
    """Nodes that answer as they are told to, and who was asked."""

    def __init__(self, nodes: Mapping[str, Answering]) -> None:
        self.asked: list[str] = []
        self._nodes = nodes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        node = next(name for name, address in ADDRESSES.items() if str(request.url).startswith(address + "/"))
        self.asked.append(node)
        return await self._nodes[node](request)


async def good(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, headers={"storekeeper-served-by": "x"}, content=b"good")


async def refused(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


async def restoring(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(503, content=b"{}")


async def hangs(_: httpx2.Request) -> httpx2.Response:
    await asyncio.sleep(60)
    raise AssertionError


def made(asking: str = "d", **nodes: Answering) -> tuple[Router, Network, Catalog]:
    catalog = Catalog(asking, ADDRESSES, {"s": StoreDefinition("s", "t")})
    catalog.complete(Assignment(NODES, {"s": 4}, 2), {})
    network = Network({node: nodes.get(node, good) for node in NODES})
    peers = Peers(
        asking,
        lambda: ADDRESSES,
        clock=SystemClock(),
        transport=lambda: network,
        max_answer_bytes=5000,
    )
    return Router(catalog, peers), network, catalog


def soon() -> float:
    return SystemClock().monotonic_s() + 1.5


def outsider() -> str:
    return next(node for node in NODES if node not in HOLDERS)


def test_the_first_holder_is_asked_and_nobody_else() -> None:
    router, network, _ = made(outsider())
    answer = asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert (answer.body, network.asked) == (b"good", HOLDERS[:1])


@pytest.mark.parametrize("trouble", [refused, restoring])
def test_a_node_that_refuses_is_followed_by_the_next_at_once(trouble: Answering) -> None:
    router, network, _ = made(outsider(), **{HOLDERS[0]: trouble})
    answer = asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert (answer.body, network.asked, router.hedged_total) == (b"good", HOLDERS[:2], 0)


def test_a_node_that_refuses_the_hop_is_followed_by_the_next() -> None:
    async def hop_refused(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(403, content=problem_of(HopRefusedError("not signed")).body())

    router, network, _ = made(outsider(), **{HOLDERS[0]: hop_refused})
    answer = asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert (answer.body, network.asked) == (b"good", HOLDERS[:2])


def test_a_row_whose_text_is_the_type_of_a_refusal_is_an_answer() -> None:
    row = orjson.dumps({"key": "urn:storekeeper:problem:hop-refused", "value": 1})

    async def answers(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=row)

    router, network, _ = made(outsider(), **{HOLDERS[0]: answers})
    answer = asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert (answer.body, network.asked) == (row, HOLDERS[:1])


def test_a_node_that_hangs_costs_a_short_delay_and_is_asked_last_from_then_on() -> None:
    router, network, _ = made(outsider(), **{HOLDERS[0]: hangs})

    async def twice() -> None:
        await asyncio.wait_for(router.forward("s", 0, QUESTION, deadline_s=soon()), 1)
        assert network.asked == HOLDERS[:2]
        await asyncio.wait_for(router.forward("s", 0, QUESTION, deadline_s=soon()), 1)
        assert network.asked == [*HOLDERS[:2], HOLDERS[1]]

    asyncio.run(twice())
    assert router.hedged_total == 1


def test_a_slow_node_is_heard_if_the_others_fail() -> None:
    async def slow(_: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0.15)
        return httpx2.Response(200, content=b"slow")

    router, _, _ = made(outsider(), **{HOLDERS[0]: slow, HOLDERS[1]: refused, HOLDERS[2]: restoring})
    assert asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon())).body == b"slow"


def test_an_answer_larger_than_any_nodes_is_not_taken() -> None:
    sent: list[int] = []

    async def parts() -> AsyncIterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b"x" * 1000

    async def endless(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=parts())

    router, network, _ = made(outsider(), **{HOLDERS[0]: endless})
    answer = asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert (answer.body, network.asked, len(sent)) == (b"good", HOLDERS[:2], 6)


def test_when_all_fail_the_error_says_why_and_keeps_what_they_said() -> None:
    router, network, _ = made(outsider(), **{HOLDERS[0]: refused, HOLDERS[1]: restoring, HOLDERS[2]: refused})
    with pytest.raises(NoHolderAnsweredError, match="status 503") as caught:
        asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert network.asked == HOLDERS
    assert (caught.value.asked, [answer.status for answer in caught.value.answers]) == (3, [503])


def test_the_reason_of_a_node_that_refuses_is_told() -> None:
    async def lost(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503, content=orjson.dumps({"detail": "the changelog of s is lost"}))

    async def odd(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503, content=orjson.dumps({"detail": ["x"]}))

    async def long(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(500, content=orjson.dumps({"detail": "y" * 4000}))

    router, _, _ = made(outsider(), **dict(zip(HOLDERS, (lost, odd, long), strict=True)))
    with pytest.raises(NoHolderAnsweredError) as caught:
        asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    first, second, third = HOLDERS
    assert f"node {first} can't answer now (status 503: the changelog of s is lost); " in str(caught.value)
    assert f"node {second} can't answer now (status 503); " in str(caught.value)
    assert str(caught.value).endswith(f"node {third} can't answer now (status 500: {'y' * 300})")


def test_nodes_that_all_hang_cost_no_more_than_the_deadline() -> None:
    router, _, _ = made(outsider(), **dict.fromkeys(HOLDERS, hangs))
    with pytest.raises(NoHolderAnsweredError):
        asyncio.run(asyncio.wait_for(router.forward("s", 0, QUESTION, deadline_s=soon()), 4))


def test_the_pause_of_a_node_that_hangs_grows_with_each_trial() -> None:
    clock = ManualClock()
    health = PeerHealth(clock)
    health.failed()
    pauses = []
    for _ in range(5):
        began_s = clock.monotonic_s()
        while health.suspect:
            clock.advance(10)
        pauses.append(round(clock.monotonic_s() - began_s, 1))
        health.trying()
        clock.advance(20)
        health.failed()  # on trial: the other node was faster
        health.failed()  # asked last by another request: counts once
    assert pauses == [0.5, 1.0, 2.0, 4.0, 4.0]
    health.answered(0.001)
    assert not health.suspect


def test_a_handshake_that_is_given_up_leaves_no_connection() -> None:
    async def asked(peer: SilentPeer) -> None:
        peers = Peers("node-0", lambda: {"node-1": f"https://{peer.address}"}, clock=SystemClock())
        with pytest.raises(PeerUnavailableError):
            await peers.ask("node-1", QUESTION, deadline_s=SystemClock().monotonic_s() + 0.3)
        await asyncio.to_thread(peer.sees_the_end)
        await peers.close()

    with silent_peer() as peer:
        asyncio.run(asked(peer))


def test_a_node_that_knows_better_who_holds_it_is_believed_once() -> None:
    asker = HOLDERS[0]
    aliased = outsider()

    async def misdirected(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(421, content=orjson.dumps({"holders": [aliased, "unknown", 7], "epoch": "e"}))

    router, network, _ = made(asker, **{HOLDERS[1]: misdirected, HOLDERS[2]: misdirected})
    answer = asyncio.run(router.forward("s", 0, QUESTION, deadline_s=soon()))
    assert (answer.body, network.asked[-1]) == (b"good", aliased)
    assert set(network.asked) == {HOLDERS[1], HOLDERS[2], aliased}


def test_a_scatter_asks_every_partition_at_one_holder_and_tells_what_is_missing() -> None:
    router, network, catalog = made("d", **dict.fromkeys(("a", "b", "c"), good))
    found = asyncio.run(router.scatter("s", range(4), lambda numbers: PeerRequest(f"/x?{numbers}"), deadline_s=soon()))
    assert sorted(number for part in found.parts for number in part.partitions) == [0, 1, 2, 3]
    assert found.missing == ()
    assert len(network.asked) == len(set(network.asked)) <= 3

    dead = catalog.holders("s", 1)
    router, _, _ = made("d", **dict.fromkeys([node for node in dead if node != "d"], refused))
    found = asyncio.run(router.scatter("s", range(4), lambda _: QUESTION, deadline_s=soon()))
    assert 1 in found.missing
    assert found.reasons


def test_second_queries_are_bounded_to_a_share() -> None:
    async def slowish(_: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0.05)
        return httpx2.Response(200, content=b"good")

    router, _, _ = made(outsider(), **dict.fromkeys(HOLDERS, slowish))

    async def many() -> None:
        deadline_s = time.monotonic() + 60
        await asyncio.gather(*(router.forward("s", 0, QUESTION, deadline_s=deadline_s) for _ in range(200)))

    asyncio.run(many())
    assert router.hedged_total <= 60


_CLOSING_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: a=b\r\ncontent-length: 2\r\n\r\n{}"


class ClosingNode:
    """Answers `answers` requests on each connection; one more is read, and then the connection is closed."""

    def __init__(self, answers: int, answer: bytes = _CLOSING_ANSWER) -> None:
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
async def asking_one(node: ClosingNode) -> AsyncIterator[Peers]:
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
    async with asking_one(node) as peers:
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
