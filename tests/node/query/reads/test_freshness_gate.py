"""Waiting for a replica: woken by the follower, ended by the clock, refused by naming the freshest."""

from __future__ import annotations

import asyncio

import pytest

from storekeeper.clock import SystemClock
from storekeeper.node.query.reads.freshness_gate import Asked, FreshnessGate
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.freshness import Freshest, FreshnessRequirement, TooStaleError, freshest
from storekeeper.protocol.replica_freshness import ReplicaFreshness
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole
from tests.changelog.messages import Record
from tests.node.query.reads.test_hot import OneNode
from tests.node.replicas.recording import RecordingListener, batch, log_of

LONG_S = 30.0


def a_replica(clock: SystemClock) -> Replica:
    replica = Replica(ReplicaId("rewards", 0), "t", storage=MemoryStorage(), clock=clock, listener=RecordingListener())
    replica.open(log_of(0, 0))
    return replica


async def admitted(replica: Replica, query: str, wait_s: float, ask_soon: object = None) -> bool:
    clock = SystemClock()
    now_s = clock.monotonic_s()
    gate = FreshnessGate(clock, ask_soon if callable(ask_soon) else lambda: None)
    requirement = FreshnessRequirement.parse(query)
    return await gate.wait_until_met(replica, requirement, now_s, now_s + wait_s) is not None


def test_the_follower_wakes_who_waits_for_a_position() -> None:
    async def scenario() -> bool:
        replica = a_replica(SystemClock())
        waiting = asyncio.create_task(admitted(replica, "position=t:0:0", LONG_S))
        token = asyncio.create_task(admitted(replica, "position=eyJjIjp7InQiOnsiMCI6MX19LCJzIjp7fSwidiI6MX0", LONG_S))
        await asyncio.sleep(0)
        await asyncio.to_thread(replica.apply, batch([Record(0, b"k", b"1")], end=True))
        assert await token
        assert not waiting.done(), "a source record that was never seen is not there"
        waiting.cancel()
        return True

    assert asyncio.run(scenario())


def test_a_linearizable_read_asks_for_the_end_and_waits_for_what_was_asked_later() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        replica = a_replica(clock)
        early = replica.tracker.request(clock.monotonic_s())
        asked: list[str] = []
        waiting = asyncio.create_task(admitted(replica, "max_staleness_ms=0", LONG_S, lambda: asked.append("soon")))
        await asyncio.sleep(0)
        assert asked == ["soon"]
        replica.tracker.saw_end(early, 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done(), "this end was asked for before the request came"
        replica.tracker.saw_end(replica.tracker.request(clock.monotonic_s()), 0)
        assert await waiting

    asyncio.run(scenario())


def test_waiting_ends_and_leaves_no_listener() -> None:
    replica = a_replica(SystemClock())
    assert not asyncio.run(admitted(replica, "max_staleness_ms=0", 0.01))
    assert replica.tracker._listeners == []


@pytest.mark.parametrize("forwarded", [False, True])
def test_a_replica_that_is_fresh_by_the_time_of_its_refusal_answers(forwarded: bool) -> None:
    node = OneNode()
    node.write((b"k", b"1"))
    requirement = FreshnessRequirement(max_staleness_ms=1)
    node.replica.tracker.opened(1)  # how fresh it is is not known

    class LateGate(FreshnessGate):
        """The end of the log is told just after the wait is over."""

        async def wait_until_met(self, replica: Replica, *_: object) -> None:
            tracker = replica.tracker
            assert not requirement.met_by(replica.freshness(node.clock.monotonic_s()))
            tracker.saw_end(tracker.request(node.clock.monotonic_s()), 1)

    node.point._gate = LateGate(node.clock, lambda: None)
    answer = asyncio.run(node.point.answer("rewards", b"k", requirement, forwarded=forwarded))
    assert answer.status == 200


@pytest.mark.parametrize("staleness_ms", [0, 1, 2])
def test_no_refusal_names_a_replica_that_meets_the_requirement(staleness_ms: int) -> None:
    node = OneNode()
    node.write((b"k", b"1"))
    asked = Asked(FreshnessRequirement(max_staleness_ms=1), 0.0, 9.0)
    found = ReplicaFreshness("t", 0, ReplicaRole.ACTIVE, True, 1, 0, 0, staleness_ms)
    (replica,) = node.catalog.replicas.values()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica, "freshness", lambda _: found)
        known = asked.refused("a", replica)
    assert (known is None) == (staleness_ms <= 1)
    assert known is None or known.staleness_ms == staleness_ms


def test_nobody_waits_for_a_standby_to_become_active() -> None:
    replica = a_replica(SystemClock())
    replica.role = ReplicaRole.STANDBY

    async def scenario() -> bool:
        async with asyncio.timeout(5):
            return await admitted(replica, "stale=no", LONG_S)

    assert not asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"freshest":null}', b'{"freshest":{"node":"a"}}', b"x" * 20_000])
def test_another_nodes_refusal_may_name_nobody(body: bytes) -> None:
    assert Freshest.in_refusal(body) is None


def test_the_freshest_is_least_stale_then_least_behind() -> None:
    def one(node: str, lag: int | None, staleness_ms: int | None) -> Freshest:
        return Freshest(node, "active", lag, staleness_ms, "")

    assert freshest([None]) is None
    assert freshest([one("a", 0, None), one("b", 9, 50), None, one("c", 3, 50)]) == one("c", 3, 50)
    assert TooStaleError("no", None).details() == {"freshest": None}
