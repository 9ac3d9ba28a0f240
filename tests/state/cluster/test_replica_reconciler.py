"""Over which nodes a node spreads partitions, by what the members say."""

from __future__ import annotations

from collections.abc import Mapping

from state.clock import ManualClock
from state.cluster.catalog import Catalog
from state.cluster.partition_counts import Counted
from state.cluster.rebalance_policy import RebalancePolicy
from state.cluster.replica_reconciler import ReconcilerSettings, ReplicaReconciler
from state.cluster.view import Member
from state.replicas.replica import Replica
from state.replicas.replica_set import ReplicaSet, ReplicaSpec
from state.replicas.states import ReplicaId, ReplicaRole
from state.store_definitions import StoreDefinition


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
