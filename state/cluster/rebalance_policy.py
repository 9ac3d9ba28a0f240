"""Which members partitions are spread over: newcomers only once they have stayed for a while. Pure.

Otherwise a node that keeps joining and leaving would make replicas move each time, at the others' expense.
Kafka's `group.initial.rebalance.delay.ms` exists for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from state.cluster.view import Member


@dataclass(frozen=True, slots=True)
class RebalancePolicy:
    """The rules.

    Attributes:
        needed: the most holders that a partition should have; newcomers don't wait while there are fewer nodes.
        join_delay_s: how long a newcomer waits.
    """

    needed: int = 1
    join_delay_s: float = 0.0

    def assignable(self, members: Sequence[Member]) -> Sequence[Member]:
        """The members that partitions are spread over: those that have settled or hold replicas already.

        All members if fewer than `needed` have settled or hold replicas.
        """
        found = [member for member in members if member.replicas or not member.settling]
        return found if len(found) >= self.needed else members

    def settling_s(self, others: Sequence[Member]) -> float:
        """How long a node that joins these others is settling."""
        return self.join_delay_s if len(others) >= self.needed else 0.0
