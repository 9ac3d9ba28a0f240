"""Over which nodes a node spreads partitions, by what the members say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from storekeeper.clock import ManualClock
from storekeeper.node.cluster.aliases import Alias
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.partition_counts import Counted
from storekeeper.node.cluster.rebalance_policy import HandoverPlan, RebalancePolicy
from storekeeper.node.cluster.replica_reconciler import ReconcilerSettings, ReplicaReconciler
from storekeeper.node.cluster.view import Member
from storekeeper.node.query.observing.health import readiness
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_set import ReplicaSet, ReplicaSpec
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState
from storekeeper.stores.store_definitions import StoreDefinition
from tests.node.replicas.recording import RecordingListener


class NothingHeld(ReplicaSet):
    """Holds nothing, whatever it is told to hold."""

    def __init__(self) -> None:
        self._replicas: Mapping[ReplicaId, Replica] = {}

    def gain(self, spec: ReplicaSpec) -> None:
        pass

    def drop(self, replica_id: ReplicaId) -> None:
        pass

    def assign_role(self, replica_id: ReplicaId, role: ReplicaRole) -> None:
        pass


def test_a_newcomer_is_given_partitions_once_it_has_settled() -> None:
    catalog = Catalog("a", {"a": "http://a"}, {"s": StoreDefinition("s", "t")})
    settings = ReconcilerSettings(replicas=0, rebalance=RebalancePolicy(needed=1, join_delay_s=3))
    reconciler = ReplicaReconciler(catalog, NothingHeld(), lambda: {"s": Counted(4, "id")}, settings, ManualClock(0))
    first = Member("a", "http://a", heard=True)
    nodes = []
    for settling in (True, False):
        reconciler.update([first, Member("b", "http://b", heard=True, settling=settling)])
        assert catalog.table is not None
        nodes.append(catalog.table.assignment.nodes)
    assert nodes == [("a",), ("a", "b")]


def test_a_node_is_ready_without_stores_but_not_before_it_knows_those_that_it_has() -> None:
    members = [Member("a", "http://a", heard=True)]
    found = {}
    for stores in ({}, {"s": StoreDefinition("s", "t")}):
        catalog = Catalog("a", {"a": "http://a"}, stores)
        ReplicaReconciler(catalog, NothingHeld(), dict, ReconcilerSettings(replicas=0), ManualClock(0)).update(members)
        found[len(stores)] = readiness(catalog).ready
    assert found == {0: True, 1: False}


def test_rows_of_a_lost_topic_and_of_one_that_no_alias_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.node.cluster.replica_reconciler._SWEEP_EVERY_S", 0.0)
    kept: dict[str, bool] = {}

    def sweep(_: frozenset[ReplicaId], is_kept: Callable[[str], bool]) -> None:
        kept.update({variant: is_kept(variant) for variant in ("s", "s@s-log-g2", "gone")})

    lost: list[str | None] = [None]
    aliases: dict[str, Alias] = {}
    reconciler = ReplicaReconciler(
        Catalog("a", {"a": "http://a"}, {"s": StoreDefinition("s", "t")}),
        NothingHeld(),
        lambda: {"s": Counted(4, "id", lost[0])},
        ReconcilerSettings(replicas=0),
        ManualClock(0),
        aliases=lambda: aliases,
        sweep=sweep,
    )
    reconciler.update([Member("a", "http://a", heard=True)])
    assert kept == {"s": False, "s@s-log-g2": True, "gone": False}, "the topic of aliases may be what is lost"
    lost[0], aliases["s"] = "deleted", Alias("s", 3, "s-log-g3", "t", 5)
    reconciler.update([Member("a", "http://a", heard=True)])
    assert kept == {"s": True, "s@s-log-g2": False, "gone": False}


class OneHeld(NothingHeld):
    """Holds one replica until it is dropped."""

    def __init__(self, replica: Replica) -> None:
        self._replicas = {replica.replica_id: replica}

    def drop(self, replica_id: ReplicaId) -> None:
        self._replicas = {}


def test_a_replica_that_may_be_the_last_copy_is_not_handed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, clock = ReplicaId("s", 0), ManualClock(0)
    storage = RocksDBStorage(tmp_path, clock)
    replica = Replica(name, "t", storage=storage, clock=clock, listener=RecordingListener())
    replica.goes_by("id", "deleted")

    def spare(_table: object, _node: str, held: frozenset[ReplicaId]) -> HandoverPlan:
        return HandoverPlan(gained=[], roles={}, spare=held, kept=frozenset())

    monkeypatch.setattr("storekeeper.node.cluster.replica_reconciler.plan_handover", spare)
    catalog = Catalog("a", {"a": "http://a"}, {"s": StoreDefinition("s", "t")})
    lost: list[str | None] = ["deleted"]
    held = OneHeld(replica)
    counts = lambda: {"s": Counted(1, "id", lost[0])}  # noqa: E731
    reconciler = ReplicaReconciler(catalog, held, counts, ReconcilerSettings(replicas=0, handover_s=0), clock)
    members = [Member("a", "http://a", heard=True)]
    for _ in range(3):
        reconciler.update(members)
    assert name in held.replicas
    lost[0] = None
    for _ in range(3):
        reconciler.update(members)
    assert name not in held.replicas


def test_a_replica_is_compared_with_the_rows_of_other_nodes_that_the_log_has_lost(tmp_path: Path) -> None:
    name, clock = ReplicaId("s", 0), ManualClock(0)
    storage = RocksDBStorage(tmp_path, clock)
    replica = Replica(name, "t", storage=storage, clock=clock, listener=RecordingListener())
    catalog = Catalog("a", {"a": "http://a"}, {"s": StoreDefinition("s", "t")})
    counts = lambda: {"s": Counted(1, "id")}  # noqa: E731
    reconciler = ReplicaReconciler(catalog, OneHeld(replica), counts, ReconcilerSettings(replicas=1), clock)
    lost = []
    for node, rows_to in (("a", 7), ("b", None), ("b", 7)):
        report = ReplicaReport(name, ReplicaRole.STANDBY, ReplicaState.FAILED, False, None, None, rows_to=rows_to)
        reports = {node: (report,)}
        reconciler.update([Member(each, f"http://{each}", heard=True, replicas=reports.get(each, ())) for each in "ab"])
        lost.append(replica.lost is not None)
    assert lost == [False, False, True]
