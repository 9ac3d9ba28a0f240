"""Restarting query nodes one after the other, so that each partition has a node that answers all the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from deploy.control.app_control import ProcessSupervisor
from deploy.control.errors import AppFailedError
from deploy.supervisor_rpc import ENDED_STATES
from state.program import NO_RESTART

_LOG_BYTES = 2000


class NodeViews(Protocol):
    """The node calls that are needed here."""

    def is_warm(self, node: str) -> bool:
        """Whether all replicas of a node can answer, according to the node."""
        ...

    def cluster(self) -> Mapping[str, Any] | None:
        """The `/state/cluster` answer of the first node that answers; None if none does."""
        ...


@dataclass(frozen=True, slots=True)
class NodeRoll:
    """One round of restarts that began at `began_s` (epoch seconds). Nodes started before that are not done yet.

    So it keeps no state of its own: after a crash, a new instance resumes the round.
    """

    nodes: tuple[str, ...]
    supervisor: ProcessSupervisor
    views: NodeViews
    began_s: int

    def step(self) -> str | None:
        """Does what can be done now. Returns what is waited for; None once every node is restarted and warm.

        Raises:
            AppFailedError: a node ended after its restart and won't come back; the others were left alone.
        """
        for node in self.nodes:
            waits = self._step(node)
            if waits is not None:
                return waits
        return None

    def _step(self, node: str) -> str | None:
        program = f"node-{node}"
        process = self.supervisor.process(program)
        if process.started_at_ms // 1000 < self.began_s:
            return self._restart(node, program, process.state)
        if process.state in ENDED_STATES and process.exit_status in {0, *NO_RESTART}:
            log = self.supervisor.log_end(program, _LOG_BYTES)
            msg = (
                f"{program} ended with exit code {process.exit_status} after its restart; the nodes behind it were not "
                f"touched and answer. The end of its log:\n{log}"
            )
            raise AppFailedError(msg)
        return None if self.views.is_warm(node) else f"{program} isn't warm yet"

    def _restart(self, node: str, program: str, state: str) -> str:
        if state in ENDED_STATES:
            self.supervisor.start(program)
            return f"{program} starts"
        if state == "STOPPING":
            return f"{program} is stopping"
        view = self.views.cluster()
        if view is None:
            return "no node tells who holds what"
        alone = held_alone(view, node)
        if alone:
            return f"no other node can answer for {', '.join(alone[:10])}, so {program} has to stay up"
        self.supervisor.stop(program)
        return f"{program} is stopping"


def held_alone(cluster: Mapping[str, Any], node: str) -> list[str]:
    """A node's serving replicas, as store/partition, that no other healthy member of `/state/cluster` serves."""
    own, elsewhere = set(), set()
    for member in cluster["members"]:
        serving = {(replica["store"], replica["partition"]) for replica in member["replicas"] if replica["serving"]}
        if member["name"] == node:
            own |= serving
        elif member["heard"] and not member["suspect"]:
            elsewhere |= serving
    return [f"{store}/{partition}" for store, partition in sorted(own - elsewhere)]
