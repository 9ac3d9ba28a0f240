"""When a node changes over to another topic: not before it is ready everywhere, and back at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storekeeper.node.cluster.aliases import Alias
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.replica_reconciler import AliasSwitch
from storekeeper.node.cluster.routing import RoutingTable, Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState

OLD, NEW = "old-log", "new-log"
VARIANT = f"s@{NEW}"
CUT_OVER = Alias("s", 2, NEW, OLD, 10)
PREPARE = replace(CUT_OVER, prepare=True)
ROLL_BACK = Alias("s", 1, OLD, NEW, 20)
RETIRE = Alias("s", 2, NEW, None, 30)
TOLERANCE = Tolerance()
PARTITIONS = {"s": 1, VARIANT: 2}


def _report(variant: str, partition: int, staleness_ms: int | None = 100, *, serving: bool = True) -> ReplicaReport:
    state = ReplicaState.RUNNING if serving else ReplicaState.RESTORING
    return ReplicaReport(ReplicaId(variant, partition), ReplicaRole.ACTIVE, state, serving, 7, 0, staleness_ms)


def _member(name: str, *reports: ReplicaReport, suspect: bool = False) -> Member:
    return Member(name, f"http://{name}", heard=True, suspect=suspect, replicas=reports)


def _table(members: Sequence[Member]) -> RoutingTable:
    assignment = Assignment(("a", "b"), PARTITIONS, replicas=1)
    return routing_table(assignment, members, TOLERANCE)


def _whole(name: str, staleness_ms: int | None = 100) -> Member:
    return _member(name, *(_report(v, p, staleness_ms) for v, count in PARTITIONS.items() for p in range(count)))


READY = _table([_whole("a"), _whole("b")])


def _running() -> AliasSwitch:
    """One that has served the old topic since before there was an alias."""
    switch = AliasSwitch({"s": OLD})
    switch.hear({}, 0.0)
    return switch


def test_without_an_alias_the_configured_topic_answers() -> None:
    switch = _running()
    assert (switch.serving, switch.wanted) == ({"s": "s"}, {"s": OLD})


def test_what_is_prepared_is_held_beside_what_answers_and_never_changed_over_to() -> None:
    switch = _running()
    switch.hear({"s": PREPARE}, 1.0)
    switch.turn(READY, TOLERANCE, 1000.0)
    assert switch.serving == {"s": "s"}
    assert switch.wanted == {"s": OLD, VARIANT: NEW}


def test_a_cut_over_waits_for_every_partition_on_every_node() -> None:
    missing_one = _member("b", _report("s", 0), _report(VARIANT, 0))
    restoring = _member("b", _report("s", 0), _report(VARIANT, 0), _report(VARIANT, 1, serving=False))
    unknown_age = _whole("b", None)
    switch = _running()
    switch.hear({"s": CUT_OVER}, 1.0)
    for other in (missing_one, restoring, unknown_age):
        switch.turn(_table([_whole("a"), other]), TOLERANCE, 1000.0)
        assert switch.serving == {"s": "s"}
    switch.turn(READY, TOLERANCE, 1000.0)
    assert switch.serving == {"s": VARIANT}
    assert switch.wanted == {"s": OLD, VARIANT: NEW}, "the old one stays warm"


def test_a_cut_over_waits_until_all_is_held_that_was_there_when_it_was_decided() -> None:
    switch = _running()
    switch.hear({"s": CUT_OVER}, 1.0)
    switch.turn(READY, TOLERANCE, 1.55)
    assert switch.serving == {"s": "s"}, "100 ms stale and 500 ms of margin reach back before the alias"
    switch.turn(READY, TOLERANCE, 1.61)
    assert switch.serving == {"s": VARIANT}


def test_a_node_that_is_silent_holds_nothing_up() -> None:
    switch = _running()
    switch.hear({"s": CUT_OVER}, 1.0)
    switch.turn(_table([_whole("a"), _member("b", suspect=True)]), TOLERANCE, 10.0)
    assert switch.serving == {"s": VARIANT}


def test_nothing_changes_over_where_nobody_is_left_to_answer() -> None:
    switch = _running()
    switch.hear({"s": CUT_OVER}, 1.0)
    switch.turn(_table([replace(_whole("a"), suspect=True), _member("b", suspect=True)]), TOLERANCE, 10.0)
    assert switch.serving == {"s": "s"}


def test_a_roll_back_returns_to_what_was_kept_warm_and_a_retirement_lets_go() -> None:
    switch = _running()
    switch.hear({"s": CUT_OVER}, 1.0)
    switch.turn(READY, TOLERANCE, 2.0)
    switch.hear({"s": ROLL_BACK}, 3.0)
    switch.turn(READY, TOLERANCE, 4.0)
    assert (switch.serving, switch.wanted) == ({"s": "s"}, {"s": OLD, VARIANT: NEW})
    switch.hear({"s": replace(CUT_OVER, at_ms=25)}, 5.0)
    switch.turn(READY, TOLERANCE, 6.0)
    switch.hear({"s": RETIRE}, 7.0)
    assert (switch.serving, switch.wanted) == ({"s": VARIANT}, {VARIANT: NEW})


def test_a_topic_is_not_let_go_of_while_it_answers() -> None:
    switch = _running()
    switch.hear({"s": RETIRE}, 1.0)
    assert switch.serving == {"s": "s"}
    assert switch.wanted == {"s": OLD, VARIANT: NEW}


def test_a_node_that_starts_takes_up_what_the_alias_says() -> None:
    for alias, serving in ((PREPARE, "s"), (CUT_OVER, VARIANT), (ROLL_BACK, "s"), (RETIRE, VARIANT)):
        switch = AliasSwitch({"s": OLD})
        switch.hear({"s": alias}, 0.0)
        assert switch.serving == {"s": serving}


def test_another_stores_alias_changes_nothing() -> None:
    switch = _running()
    switch.hear({"t": replace(CUT_OVER, store="t")}, 1.0)
    switch.turn(READY, TOLERANCE, 10.0)
    assert (switch.serving, switch.wanted) == ({"s": "s"}, {"s": OLD})
