"""Waits, within limits, until a replica is fresh enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from storekeeper.clock import Clock
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.freshness import Freshest, FreshnessRequirement, Stale
from storekeeper.protocol.replica_freshness import ReplicaFreshness


@dataclass(frozen=True, slots=True)
class Asked:
    """The requirement of a request, its arrival time and its deadline (monotonic seconds)."""

    requirement: FreshnessRequirement
    arrived_s: float
    deadline_s: float

    def sent_on(self, now_s: float) -> str:
        """The requirement for another node, as a query string: with the time that is left."""
        left_ms, spent_ms = (int(s * 1000) for s in (self.deadline_s - now_s, now_s - self.arrived_s))
        return self.requirement.sent_on(left_ms, spent_ms).query()

    def refused(self, node: str, replica: Replica) -> Freshest | None:
        """The freshness of a replica of `node` that was refused; None if it is fresh enough by now."""
        freshness = replica.freshness(self.arrived_s)
        return None if self.requirement.met_by(freshness) else Freshest.of(node, freshness)


class FreshnessGate:
    """Waits until a replica is fresh enough. Belongs to one event loop.

    `ask_soon` has the end offsets requested at once.
    """

    def __init__(self, clock: Clock, ask_soon: Callable[[], None]) -> None:
        self._clock = clock
        self._ask_soon = ask_soon

    async def admits(self, replica: Replica, asked: Asked, *, share: float) -> bool:
        """Whether a replica may answer where freshness is asked, maybe after a share of the wait.

        The rest of the wait is left to another node, which may be fresh enough sooner.
        """
        until_s = min(asked.deadline_s, asked.arrived_s + asked.requirement.wait_ms / 1000 * share)
        return await self.wait_until_met(replica, asked.requirement, asked.arrived_s, until_s) is not None

    async def wait_until_met(
        self, replica: Replica, requirement: FreshnessRequirement, arrived_s: float, wait_until_s: float
    ) -> ReplicaFreshness | None:
        """The replica's freshness once it meets the requirement; None if it doesn't by `wait_until_s`.

        The follower wakes the waiting task: there is no polling. Rows read after this are at least as fresh.
        """
        freshness = replica.freshness(arrived_s)
        if requirement.met_by(freshness):
            return freshness
        if self._clock.monotonic_s() >= wait_until_s or not _may_come(requirement, replica):
            return None
        return await self._wait(replica, requirement, arrived_s, wait_until_s)

    async def _wait(
        self, replica: Replica, requirement: FreshnessRequirement, arrived_s: float, wait_until_s: float
    ) -> ReplicaFreshness | None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        leave = replica.tracker.listen(wake)
        try:
            # Only an end offset requested from now on can prove that nothing is missing.
            self._ask_soon()
            async with asyncio.timeout(max(0.0, wait_until_s - self._clock.monotonic_s())):
                while True:
                    changed.clear()
                    freshness = replica.freshness(arrived_s)
                    if requirement.met_by(freshness):
                        return freshness
                    await changed.wait()
        except TimeoutError:
            return None
        finally:
            leave()


def _may_come(requirement: FreshnessRequirement, replica: Replica) -> bool:
    """Whether waiting can help: it doesn't turn a standby into the active replica."""
    return requirement.stale is not Stale.NO or requirement.allows(replica.role, caught_up=True)
