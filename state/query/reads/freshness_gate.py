"""Waits, within limits, until a replica meets a requirement of freshness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from state.clock import Clock
from state.protocol.freshness import FreshnessRequirement, Stale
from state.replicas.freshness import ReplicaFreshness
from state.replicas.replica import Replica


class FreshnessGate:
    """Belongs to one event loop.

    Args:
        clock: the clock that the replicas' freshness is measured with.
        ask_soon: has the end offsets requested at once.
    """

    def __init__(self, clock: Clock, ask_soon: Callable[[], None]) -> None:
        self._clock = clock
        self._ask_soon = ask_soon

    async def admit(
        self, replica: Replica, requirement: FreshnessRequirement, arrived_s: float, wait_until_s: float
    ) -> ReplicaFreshness | None:
        """The replica's freshness once it meets the requirement; None if it doesn't by `wait_until_s`.

        The follower wakes the waiting task: there is no polling. Rows read after this are at least as fresh.
        """
        found = replica.freshness(arrived_s)
        if requirement.met_by(found):
            return found
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
                    found = replica.freshness(arrived_s)
                    if requirement.met_by(found):
                        return found
                    await changed.wait()
        except TimeoutError:
            return None
        finally:
            leave()


def _may_come(requirement: FreshnessRequirement, replica: Replica) -> bool:
    """Whether waiting can help: it doesn't turn a standby into the active replica."""
    return requirement.stale is not Stale.NO or requirement.allows(replica.role, caught_up=True)
