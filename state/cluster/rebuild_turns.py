"""Which replicas this node may drop and rebuild now: of each partition, one in the cluster at a time.

A replica that was behind for longer than its log keeps tombstones must be rebuilt. If all nodes were down, all replicas
must be; if all were rebuilt at once, none could answer. So a replica is first reported as OUTDATED in its node's
heartbeats and keeps its rows. It has its turn once the node has read its own report, and no other node

- reported it earlier and is still a member, as that node comes first;
- has just dropped its rows, or has none to serve while this replica serves.

Heartbeats are the records of one partition, so all nodes read them in the same order, and only one node comes first.
If a node stops between its turn and the rebuild for so long that it is no member any more, it loses its turn. If it
then goes on, two replicas are rebuilt at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from state.cluster.heartbeat import ReplicaReport
from state.cluster.view import Member
from state.replicas.states import ReplicaId, ReplicaState

_SOON_WHOLE = frozenset({ReplicaState.CREATED, ReplicaState.RESTORING})


class RebuildTurns:
    """The turns of one node. `update` belongs to one thread, `has` to any."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._turns: frozenset[ReplicaId] = frozenset()

    def update(self, members: Sequence[Member]) -> None:
        """Takes the current members."""
        self._turns = turns_of(self._node, members)

    def has(self, replica: ReplicaId) -> bool:
        """Whether a replica may be rebuilt now."""
        return replica in self._turns


def turns_of(node: str, members: Sequence[Member]) -> frozenset[ReplicaId]:
    """The replicas of a node that may be rebuilt now."""
    mine = next((member for member in members if member.name == node), None)
    if mine is None:
        return frozenset()
    reports = {report.replica: report for report in mine.replicas}
    others = [member for member in members if member.name != node]
    return frozenset(
        replica
        for replica, since in mine.outdated_since.items()
        if not any(_comes_first(other, reports[replica], since) for other in others)
    )


def _comes_first(other: Member, mine: ReplicaReport, since: int) -> bool:
    theirs = next((report for report in other.replicas if report.replica == mine.replica), None)
    if theirs is None:
        return False
    if theirs.state is ReplicaState.OUTDATED:
        return other.outdated_since[mine.replica] < since
    return not theirs.serving and (mine.serving or theirs.state in _SOON_WHOLE)
