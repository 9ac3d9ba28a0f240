"""Decides from aliases which topics of a store to hold, which one answers, and when to switch over. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from storekeeper.names import variant_name
from storekeeper.node.cluster.aliases import Alias
from storekeeper.node.cluster.heartbeat import ReplicaReport
from storekeeper.node.cluster.routing import RoutingTable, Tolerance
from storekeeper.node.cluster.view import Member
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

    Args:
        configured: topic by store, as the node was configured.
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
        found: dict[str, str] = {}
        for store, answering in self._answering.items():
            alias = self.alias(store)
            coming = () if alias is None else (alias.serving_topic, alias.warm_topic)
            found |= {self._variant(store, topic): topic for topic in (answering, *coming) if topic is not None}
        return found

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
            before, wanted = self._answering[store], alias.serving_topic
            if before != wanted and self._ready(self._variant(store, wanted), table, tolerance, now_s - heard_at_s):
                log.info("store_changed_over", store=store, to=wanted, before=before, after_s=now_s - heard_at_s)
                self._answering[store] = wanted

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
        report = next((found for found in member.replicas if found.replica == replica), None)
        if report is None or not _is_whole(report, tolerance) or report.staleness_ms is None:
            return False
        return member.silent_s + report.staleness_ms / 1000 + _MARGIN_S <= since_s

    def _variant(self, store: str, topic: str) -> str:
        return store if topic == self._configured.get(store) else variant_name(store, topic)


def _is_whole(report: ReplicaReport, tolerance: Tolerance) -> bool:
    return report.serving and (report.offset_lag or 0) <= tolerance.lag
