"""A node whose process was stopped doesn't know what it misses: it asks others until it has caught up itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import httpx2

from storekeeper.clock import SystemClock
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.routing import Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from storekeeper.node.query.answers.answer import SERVED_BY, Answer
from storekeeper.node.query.forwarding import Peers, Router
from storekeeper.node.query.reads.as_of import PastReads
from storekeeper.node.query.reads.freshness_gate import FreshnessGate
from storekeeper.node.query.reads.hot import HotReads
from storekeeper.node.query.reads.pages import QueryLimits
from storekeeper.node.query.reads.point import PointQueries
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState
from storekeeper.stores.store_definitions import parse_definitions
from tests.changelog.messages import Record
from tests.node.replicas.recording import RecordingListener, batch, log_of

REPLICA = ReplicaId("rewards", 0)
PAUSE_S = 60.0

Answering = Callable[[httpx2.Request], Coroutine[None, None, httpx2.Response]]


class Woken:
    """Node a, which was stopped for a minute and has the row as it was before; node b, which answers as it is told."""

    def __init__(self, other: Answering) -> None:
        clock = SystemClock()
        self.replica = Replica(REPLICA, "t", storage=MemoryStorage(), clock=clock, listener=RecordingListener())
        self.replica.open(log_of(0, 1))
        self.replica.apply(batch([Record(0, b"k", b'"old"')], end=True))
        self.replica.tracker.saw_end(self.replica.tracker.request(clock.monotonic_s() - PAUSE_S), 1)
        report = ReplicaReport(REPLICA, ReplicaRole.STANDBY, ReplicaState.RUNNING, True, 1, 0, 0)
        members = [Member("a", "http://a", heard=True), Member("b", "http://b", heard=True, replicas=(report,))]
        catalog = Catalog("a", {}, parse_definitions("rewards=t"))
        table = routing_table(Assignment(("a", "b"), {"rewards": 1}, 1), members, Tolerance())
        catalog.follow(table, {REPLICA: self.replica})
        peers = Peers(
            "a",
            lambda: catalog.addresses,
            clock=clock,
            transport=lambda: httpx2.MockTransport(other),
        )
        self.point = PointQueries(
            catalog,
            Router(catalog, peers),
            HotReads(catalog, clock, QueryLimits()),
            limits=QueryLimits(),
            longest_s=5,
            clock=clock,
            gate=FreshnessGate(clock, lambda: None),
            past=PastReads("a", Path("/nonexistent"), clock),
        )
        self._clock = clock

    async def ask(self) -> Answer:
        return await self.point.answer("rewards", b"k", forwarded=False)

    def catch_up(self) -> None:
        """The follower reads what was missed, and the end of the log is told."""
        self.replica.apply(batch([Record(1, b"k", b'"new"')], end=True))
        self.replica.tracker.saw_end(self.replica.tracker.request(self._clock.monotonic_s()), 2)


def told(answer: Answer) -> tuple[bytes, bytes]:
    return dict(answer.headers)[SERVED_BY], answer.body


async def fresh_but_busy(_: httpx2.Request) -> httpx2.Response:
    await asyncio.sleep(0.4)
    headers = {"storekeeper-served-by": "b", "storekeeper-staleness-ms": "10"}
    return httpx2.Response(200, headers=headers, content=b'{"key":"k","value":"new"}')


async def hangs(_: httpx2.Request) -> httpx2.Response:
    await asyncio.sleep(60)
    raise AssertionError


async def gone(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


def test_another_node_that_takes_its_time_is_waited_for() -> None:
    answer = asyncio.run(Woken(fresh_but_busy).ask())
    assert told(answer) == (b"b", b'{"key":"k","value":"new"}')


def test_it_answers_itself_as_soon_as_it_has_caught_up_whoever_hangs() -> None:
    async def scenario() -> Answer:
        other_asked = asyncio.Event()

        async def hangs_when_asked(request: httpx2.Request) -> httpx2.Response:
            other_asked.set()
            return await hangs(request)

        node = Woken(hangs_when_asked)
        answer, waited = asyncio.create_task(node.ask()), asyncio.create_task(other_asked.wait())
        await asyncio.wait((answer, waited), return_when=asyncio.FIRST_COMPLETED)
        assert not answer.done(), "it must not answer with what it had a minute ago"
        await asyncio.to_thread(node.catch_up)
        return await answer

    assert told(asyncio.run(scenario())) == (b"a", b'{"key":"k","value":"new"}')


def test_what_it_has_is_better_than_nothing_when_nobody_else_answers() -> None:
    for other in (gone, hangs):
        assert told(asyncio.run(Woken(other).ask())) == (b"a", b'{"key":"k","value":"old"}')
