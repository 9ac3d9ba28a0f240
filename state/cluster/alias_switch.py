"""Which topic of a store is to be held, and which one answers: aliases, and the moment to change over. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from state.cluster.aliases import Alias
from state.cluster.member import ReplicaReport
from state.cluster.routing import RoutingTable, Tolerance
from state.cluster.view import Member
from state.names import variant_name
from state.replicas.states import ReplicaId

log = structlog.get_logger(__name__)

_Side = Mapping[str, str]
"""Topic by store, of one generation."""


class AliasSwitch:
    """Belongs to one thread.

    The rows that a store has in one topic are its *variant*. The topic that a node was configured with is the variant
    of the store's own name, another one is called `store@topic`. A node that starts takes up what the aliases say. One
    that runs goes on answering from the variant that it has until the new one is ready everywhere: every node that is
    to hold a partition of it then holds all that was in the topic when the alias was heard.

    Where a store is split, its parts stand in its place, with names of their own, and change over together. A name that
    only the generation before has, or only the one after it, is answered by that one for as long as it is held: what
    was split can still be asked for as a whole, until it is let go of.

    Args:
        configured: topic by store, as the node was configured.
        margin_s: what other nodes say is at most so old beside what they say of its age.
    """

    def __init__(self, configured: Mapping[str, str], *, margin_s: float = 0.5) -> None:
        self._configured = configured
        self._margin_s = margin_s
        self._answering: dict[str, tuple[_Side, ...]] = {}
        self._heard: dict[str, tuple[Alias, float]] = {}

    def hear(self, aliases: Mapping[str, Alias], now_s: float) -> None:
        """Takes in the aliases as of now. Nothing changes over yet."""
        for store, topic in self._configured.items():
            alias = aliases.get(store)
            known = self._heard.get(store)
            if alias is not None and (known is None or known[0] != alias):
                self._heard[store] = (alias, now_s)
            if alias is None:
                self._answering.setdefault(store, ({store: topic},))
            else:
                self._answering[store] = _still_answering(self._answering.get(store), alias)

    @property
    def wanted(self) -> Mapping[str, str]:
        """Topic by variant, of all that is to be held."""
        found: dict[str, str] = {}
        for store, sides in self._answering.items():
            alias = self.alias(store)
            coming = () if alias is None else (alias.serving, alias.warm)
            for side in (*sides, *coming):
                found |= {self._variant(name, topic): topic for name, topic in side.items()}
        return found

    @property
    def serving(self) -> Mapping[str, str]:
        """The variant that answers, by name. A store that was split and let go of is not among them."""
        return {
            name: self._variant(name, topic)
            for store, sides in self._answering.items()
            for side in sides
            for name, topic in side.items()
            if name == store or name not in self._configured
        }

    def alias(self, store: str) -> Alias | None:
        """The alias of a store as heard last."""
        heard = self._heard.get(store)
        return None if heard is None else heard[0]

    def turn(self, table: RoutingTable, tolerance: Tolerance, now_s: float) -> None:
        """Changes over to what the aliases name, store by store, where that is ready."""
        for store, (alias, heard_at_s) in self._heard.items():
            before, wanted = self._answering[store][-1], alias.serving
            if before != wanted and self._ready(wanted, table, tolerance, now_s - heard_at_s):
                log.info("store_changed_over", store=store, to=wanted, before=before, after_s=now_s - heard_at_s)
                others = tuple(side for side in self._answering[store] if side != wanted)
                self._answering[store] = _still_answering((*others, wanted), alias)

    def _ready(self, side: _Side, table: RoutingTable, tolerance: Tolerance, since_s: float) -> bool:
        variants = [self._variant(name, topic) for name, topic in side.items()]
        counts = [table.assignment.partitions.get(variant, 0) for variant in variants]
        members = {member.name: member for member in table.members}
        return all(counts) and all(
            self._partition_ready(ReplicaId(variant, p), table, members, tolerance, since_s)
            for variant, count in zip(variants, counts, strict=True)
            for p in range(count)
        )

    def _partition_ready(
        self,
        replica: ReplicaId,
        table: RoutingTable,
        members: Mapping[str, Member],
        tolerance: Tolerance,
        since_s: float,
    ) -> bool:
        """Whether all nodes that are to hold a partition, and are there, hold what was in it when the alias came."""
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
        return member.silent_s + report.staleness_ms / 1000 + self._margin_s <= since_s

    def _variant(self, store: str, topic: str) -> str:
        return store if topic == self._configured.get(store) else variant_name(store, topic)


def _still_answering(sides: tuple[_Side, ...] | None, alias: Alias) -> tuple[_Side, ...]:
    """Of what has answered, the newest last, what is still held; for a node that starts, what the alias says."""
    if sides is None:
        return (alias.serving,) if alias.prepare or not alias.warm else (alias.warm, alias.serving)
    return tuple(side for side in sides[:-1] if side in (alias.serving, alias.warm)) + sides[-1:]


def _is_whole(report: ReplicaReport, tolerance: Tolerance) -> bool:
    return report.serving and (report.offset_lag or 0) <= tolerance.lag
