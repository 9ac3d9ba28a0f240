"""Carries out assignment and aliases on this node: opens replicas, drops them, and keeps the routing table current."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from storekeeper.clock import Clock
from storekeeper.names import store_of, variant_name
from storekeeper.node.cluster.aliases import Alias
from storekeeper.node.cluster.assignment import Assignment
from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.partition_counts import Counted
from storekeeper.node.cluster.rebalance_policy import RebalancePolicy, plan_handover
from storekeeper.node.cluster.routing import RoutingTable, Tolerance, routing_table
from storekeeper.node.cluster.view import Member
from storekeeper.node.replicas.replica_set import ReplicaSet, ReplicaSpec
from storekeeper.protocol.replica_states import ReplicaId

log = structlog.get_logger(__name__)

_MARGIN_S = 0.5
"""Added to the age of other nodes' reports, for delays that the age does not include."""


class AliasSwitch:
    """Belongs to one thread.

    A *variant* is a store's rows in one topic. The variant of the configured topic has the store's own name; any other
    is called `store@topic`. A starting node follows the aliases at once. A running node keeps answering from its
    current variant until the new one is ready everywhere: all live nodes that should hold one of its partitions hold
    everything that was in the topic when the alias was read.
    """

    def __init__(self, configured: Mapping[str, str]) -> None:
        self._configured = configured
        self._answering: dict[str, str] = {}
        self._heard: dict[str, tuple[Alias, float]] = {}

    def hear(self, aliases: Mapping[str, Alias], now_s: float) -> None:
        """Takes the current aliases. Doesn't switch over yet."""
        for store, topic in self._configured.items():
            alias = aliases.get(store)
            known = self._heard.get(store)
            if alias is not None and (known is None or known[0] != alias):
                self._heard[store] = (alias, now_s)
            self._answering.setdefault(store, topic if alias is None else alias.serving_topic)

    @property
    def wanted(self) -> Mapping[str, str]:
        """Topic by variant, for all variants to hold."""
        topics: dict[str, str] = {}
        for store, answering in self._answering.items():
            alias = self.alias(store)
            coming = () if alias is None else (alias.serving_topic, alias.warm_topic)
            topics |= {self._variant(store, topic): topic for topic in (answering, *coming) if topic is not None}
        return topics

    @property
    def serving(self) -> Mapping[str, str]:
        """The variant that answers, by store."""
        return {store: self._variant(store, topic) for store, topic in self._answering.items()}

    def alias(self, store: str) -> Alias | None:
        """The alias of a store as last read; None if there is none."""
        heard = self._heard.get(store)
        return None if heard is None else heard[0]

    def turn(self, table: RoutingTable, tolerance: Tolerance, now_s: float) -> None:
        """Switches each store over to the topic that its alias names, if that is ready."""
        for store, (alias, heard_at_s) in self._heard.items():
            before, serving = self._answering[store], alias.serving_topic
            if before != serving and self._ready(self._variant(store, serving), table, tolerance, now_s - heard_at_s):
                log.info("store_changed_over", store=store, to=serving, before=before, after_s=now_s - heard_at_s)
                self._answering[store] = serving

    def _ready(self, variant: str, table: RoutingTable, tolerance: Tolerance, since_s: float) -> bool:
        count = table.assignment.partitions.get(variant, 0)
        members = {member.name: member for member in table.members}
        return count > 0 and all(
            self._partition_ready(ReplicaId(variant, p), table, members, tolerance, since_s) for p in range(count)
        )

    def _partition_ready(
        self,
        replica: ReplicaId,
        table: RoutingTable,
        members: Mapping[str, Member],
        tolerance: Tolerance,
        since_s: float,
    ) -> bool:
        """Whether all live nodes that should hold a partition hold what was in it when the alias was read."""
        alive = [
            members[name]
            for name in table.assignment.holders(replica.store, replica.partition)
            if name in members and members[name].heard and not members[name].suspect
        ]
        return bool(alive) and all(self._holds(member, replica, tolerance, since_s) for member in alive)

    def _holds(self, member: Member, replica: ReplicaId, tolerance: Tolerance, since_s: float) -> bool:
        report = next((each for each in member.replicas if each.replica == replica), None)
        if report is None or not _is_whole(report, tolerance) or report.staleness_ms is None:
            return False
        return member.silent_s + report.staleness_ms / 1000 + _MARGIN_S <= since_s

    def _variant(self, store: str, topic: str) -> str:
        return store if topic == self._configured.get(store) else variant_name(store, topic)


def _rows_elsewhere(members: Sequence[Member], node: str) -> Mapping[ReplicaId, int]:
    """The offset that the rows of other nodes reach, for each partition of which the log has lost records."""
    found: dict[ReplicaId, int] = {}
    for member in members:
        if member.name == node:
            continue
        for report in member.replicas:
            if report.rows_to is not None:
                found[report.replica] = max(report.rows_to, found.get(report.replica, 0))
    return found


def _is_whole(report: ReplicaReport, tolerance: Tolerance) -> bool:
    return report.serving and (report.offset_lag or 0) <= tolerance.lag


_SWEEP_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class ReconcilerSettings:
    """How replicas are spread, and when they are dropped.

    Attributes:
        replicas: standbys of each partition, unless `replicas_of` has a number for the store.
        replicas_of: the same by store.
        everywhere: stores of which every node holds every partition.
        rebalance: which members they are spread over.
        tolerance: how far behind a replica may be to count as ready.
        handover_s: how long others must have been ready before a replica is dropped.
    """

    replicas: int
    replicas_of: Mapping[str, int] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()
    rebalance: RebalancePolicy = field(default_factory=RebalancePolicy)
    tolerance: Tolerance = field(default_factory=Tolerance)
    handover_s: float = 2.0


class ReplicaReconciler:
    """Opens and drops this node's replicas as assigned. `update` belongs to one thread, the other methods to any.

    `counts` returns the partition counts known so far, `aliases` None until they are known: nothing is opened before
    that. `sweep` deletes the rows of replicas that aren't held, if they are old enough; it takes the replicas that are
    held, and a check of whether a variant's rows stay.
    """

    def __init__(
        self,
        catalog: Catalog,
        held: ReplicaSet,
        counts: Callable[[], Mapping[str, Counted]],
        settings: ReconcilerSettings,
        clock: Clock,
        *,
        aliases: Callable[[], Mapping[str, Alias] | None] = dict,
        sweep: Callable[[frozenset[ReplicaId], Callable[[str], bool]], None] = lambda *_: None,
    ) -> None:
        self._catalog = catalog
        self._held = held
        self._counts = counts
        self._settings = settings
        self._clock = clock
        self._aliases = aliases
        self._switch = AliasSwitch({name: definition.topic for name, definition in catalog.definitions.items()})
        self._sweep = sweep
        self._spare_since_s: dict[ReplicaId, float] = {}
        self._next_sweep_s = clock.monotonic_s() + _SWEEP_EVERY_S
        self._epoch = ""

    def reports(self) -> Sequence[ReplicaReport]:
        """The reports on this node's replicas, for its heartbeats."""
        now_s = self._clock.monotonic_s()
        replicas = self._held.replicas
        return [
            ReplicaReport.of(held.status(), held.tracker.staleness_ms(now_s), held.rows_to)
            for _, held in sorted(replicas.items())
        ]

    def update(self, members: Sequence[Member]) -> None:
        """Applies what follows from the members and their reports. Cheap; repeating it does nothing."""
        aliases = self._aliases()
        if aliases is None:
            return
        now_s = self._clock.monotonic_s()
        self._switch.hear(aliases, now_s)
        topics = self._switch.wanted
        self._catalog.set_aliases(aliases)
        self._catalog.want(topics)
        counted = {variant: count for variant, count in self._counts().items() if variant in topics}
        counts = {variant: count.partitions for variant, count in counted.items()}
        if not members or (topics and not counts):
            return
        table = routing_table(self._assignment(members, counts), members, self._settings.tolerance)
        if table.epoch != self._epoch:
            self._epoch = table.epoch
            log.info("assignment_changed", epoch=table.epoch, members=list(table.addresses))
        self._switch.turn(table, self._settings.tolerance, now_s)
        self._adjust(table, counted)
        rows_elsewhere = _rows_elsewhere(members, self._catalog.node)
        for replica, held in self._held.replicas.items():
            if replica.store in counted:
                held.goes_by(counted[replica.store].topic_id, counted[replica.store].lost)
                held.compare(rows_elsewhere.get(replica, 0))
        self._catalog.follow(table, self._held.replicas, self._switch.serving)
        if self._clock.monotonic_s() >= self._next_sweep_s:
            self._next_sweep_s = self._clock.monotonic_s() + _SWEEP_EVERY_S
            self._sweep(frozenset(self._held.replicas), lambda variant: self._is_kept(variant, counted))

    def _is_kept(self, variant: str, counted: Mapping[str, Counted]) -> bool:
        """Whether rows may be a last copy: their topic is lost, or nothing says that another one took its place."""
        if variant in counted:
            return counted[variant].lost is not None
        return variant != store_of(variant) and self._switch.alias(store_of(variant)) is None

    def _assignment(self, members: Sequence[Member], counts: Mapping[str, int]) -> Assignment:
        stores = {variant: store_of(variant) for variant in counts}
        return Assignment(
            nodes=tuple(member.name for member in self._settings.rebalance.assignable(members)),
            partitions=counts,
            replicas=self._settings.replicas,
            replicas_of={
                variant: replicas
                for variant, store in stores.items()
                if (replicas := self._settings.replicas_of.get(store)) is not None
            },
            racks={member.name: member.rack for member in members if member.rack},
            everywhere=frozenset(variant for variant, store in stores.items() if store in self._settings.everywhere),
        )

    def _adjust(self, table: RoutingTable, counted: Mapping[str, Counted]) -> None:
        plan = plan_handover(table, self._catalog.node, frozenset(self._held.replicas))
        topics = self._switch.wanted
        retired = {replica for replica in self._held.replicas if replica.store not in topics}
        for replica, role in plan.gained:
            log.info("replica_gained", replica=str(replica), role=role.value)
            topic, topic_id = self._catalog.topic(replica.store), counted[replica.store].topic_id
            self._held.gain(ReplicaSpec(replica, topic, role, topic_id))
        for replica, role in plan.roles.items():
            if self._held.replicas[replica].role is not role:
                self._held.assign_role(replica, role)
        now_s = self._clock.monotonic_s()
        # What others have instead of rows that may be the last copy is older.
        spare = {replica for replica in plan.spare if self._held.replicas[replica].lost is None}
        self._spare_since_s = {replica: self._spare_since_s.get(replica, now_s) for replica in spare | retired}
        for replica, since_s in self._spare_since_s.items():
            if now_s - since_s >= self._settings.handover_s:
                log.info("replica_dropped", replica=str(replica))
                self._held.drop(replica)
