"""Which members partitions are spread over."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from storekeeper.node.cluster.heartbeat import Heartbeat, ReplicaReport
from storekeeper.node.cluster.rebalance_policy import RebalancePolicy, RebuildTurns, turns_of
from storekeeper.node.cluster.view import Member, Members, ViewSettings
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState

HELD = ReplicaReport(ReplicaId("s", 0), ReplicaRole.STANDBY, ReplicaState.RESTORING, False, None, None)
POLICY = RebalancePolicy(needed=2, join_delay_s=3)


def member(name: str, *replicas: ReplicaReport, settling: bool = False) -> Member:
    return Member(name, f"http://{name}", heard=True, settling=settling, replicas=replicas)


def assignable(*members: Member) -> str:
    return "".join(found.name for found in POLICY.assignable(members))


def test_a_newcomer_gets_no_partitions_until_it_has_settled() -> None:
    assert assignable(member("a"), member("b"), member("c", settling=True)) == "ab"
    assert assignable(member("a"), member("b"), member("c")) == "abc"


def test_nobody_waits_while_there_are_too_few() -> None:
    assert assignable(member("a"), member("c", settling=True)) == "ac"
    assert (POLICY.settling_s([]), POLICY.settling_s([member("a")])) == (0, 0)
    assert POLICY.settling_s([member("a"), member("b", settling=True)]) == 3


def test_a_member_that_holds_replicas_keeps_getting_partitions() -> None:
    assert assignable(member("a"), member("b"), member("c", HELD, settling=True)) == "abc"


REPLICA = ReplicaId("s", 0)
MOST_STEPS = 20_000


def report(state: ReplicaState, *, serving: bool) -> ReplicaReport:
    return ReplicaReport(REPLICA, ReplicaRole.ACTIVE, state, serving, 1, 0)


def reporter(name: str, state: ReplicaState, *, serving: bool, since: int | None = None) -> Member:
    outdated = {} if since is None else {REPLICA: since}
    return Member(
        name, f"http://{name}", heard=True, replicas=[report(state, serving=serving)], outdated_since=outdated
    )


@dataclass(slots=True)
class FakeNode:
    """A node that holds one replica, and reads the common log of heartbeats at its own pace."""

    name: str
    log: list[Heartbeat]
    serving: bool = True
    state: ReplicaState = ReplicaState.RUNNING
    rebuilt: int = 0
    incarnation: int = 1
    _sequence: int = 0
    _read: int = 0
    _view: Members = field(init=False)
    _turns: RebuildTurns = field(init=False)

    def __post_init__(self) -> None:
        self._view = Members(self.name, {}, ViewSettings())
        self._turns = RebuildTurns(self.name)

    def beat(self) -> None:
        self._sequence += 1
        replicas = (report(self.state, serving=self.serving),)
        self.log.append(Heartbeat(self.name, "http://x", "", self.incarnation, self._sequence, 0, replicas=replicas))

    def hear(self, count: int) -> None:
        for heartbeat in self.log[self._read : self._read + count]:
            self._read += 1
            self._view.hear(heartbeat)
            if heartbeat.name == self.name and heartbeat.incarnation == self.incarnation:
                self._view.echo(0.0)
        self._turns.update(self._view.members())

    def act(self) -> None:
        """What the follower does when it looks at the replica."""
        if self.state is ReplicaState.OUTDATED and self._turns.has(REPLICA):
            self.state, self.serving = ReplicaState.RESTORING, False
        elif self.state is ReplicaState.RESTORING:
            self.state, self.serving, self.rebuilt = ReplicaState.RUNNING, True, self.rebuilt + 1

    def restart(self) -> FakeNode:
        """The node of the same name that comes after it: its rows are on the disk, and too old.

        It has heard what is left of the log behind compaction: the last heartbeat of each node.
        """
        after = FakeNode(self.name, self.log, False, ReplicaState.CREATED, self.rebuilt, self.incarnation + 1)
        last = {heartbeat.name: at for at, heartbeat in enumerate(self.log)}
        for at in sorted(last.values()):
            after._view.hear(self.log[at])
        after._read = len(self.log)
        return after


def steps(nodes: list[FakeNode], chance: random.Random, *, restarts: bool) -> None:
    """Some node does something, until each has rebuilt its replica."""
    for _ in range(MOST_STEPS):
        if all(node.rebuilt for node in nodes):
            return
        at = chance.randrange(len(nodes))
        node = nodes[at]
        if node.state is ReplicaState.RUNNING and node.rebuilt == 0:
            node.state = ReplicaState.OUTDATED
        elif node.state is ReplicaState.CREATED:
            node.beat()
            node.state = ReplicaState.OUTDATED
        elif restarts and node.state is ReplicaState.OUTDATED and node.incarnation <= 3 and chance.random() < 0.05:
            nodes[at] = node.restart()
        else:
            chance.choice((node.beat, node.act, partial(node.hear, chance.randrange(1, 8))))()
        assert sum(found.state is ReplicaState.RESTORING for found in nodes) <= 1
    raise AssertionError([(node.name, node.state, node.rebuilt) for node in nodes])


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_one_replica_is_rebuilt_at_a_time_and_each_in_the_end(count: int, restarts: bool) -> None:
    for seed in range(300):
        log: list[Heartbeat] = []
        nodes = [FakeNode(name, log) for name in "abc"[:count]]
        for node in nodes:
            node.beat()
        steps(nodes, random.Random(seed), restarts=restarts)


WAITS, GOES = frozenset[ReplicaId](), frozenset({REPLICA})


@pytest.mark.parametrize(
    ("serving", "others", "expected"),
    [
        (True, [], GOES),
        (True, [reporter("b", ReplicaState.RUNNING, serving=True)], GOES),
        (True, [reporter("b", ReplicaState.RESTORING, serving=False)], WAITS),
        (True, [reporter("b", ReplicaState.FAILED, serving=False)], WAITS),
        (False, [reporter("b", ReplicaState.FAILED, serving=False)], GOES),
        (False, [reporter("b", ReplicaState.CREATED, serving=False)], WAITS),
        (True, [reporter("b", ReplicaState.OUTDATED, serving=True, since=4)], WAITS),
        (True, [reporter("b", ReplicaState.OUTDATED, serving=True, since=6)], GOES),
        (True, [Member("b", "http://b")], GOES),
    ],
)
def test_a_replica_waits_for_those_that_come_first(
    serving: bool, others: Sequence[Member], expected: frozenset[ReplicaId]
) -> None:
    mine = reporter("a", ReplicaState.OUTDATED, serving=serving, since=5)
    assert turns_of("a", [mine, *others]) == expected


def test_a_node_that_has_not_heard_itself_has_no_turn() -> None:
    assert turns_of("a", [reporter("b", ReplicaState.OUTDATED, serving=True, since=1)]) == WAITS
    assert turns_of("a", [reporter("a", ReplicaState.RUNNING, serving=True)]) == WAITS
