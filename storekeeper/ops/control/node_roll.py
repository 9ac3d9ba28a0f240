"""Restarting query nodes one after the other, so that each partition has a node that answers all the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from storekeeper.apps.settings import ClientSettings
from storekeeper.clock import SystemClock
from storekeeper.ops.control.app_control import AppFailedError
from storekeeper.ops.supervisor_rpc import ENDED_STATES, SupervisorRpc
from storekeeper.program import NO_RESTART


@dataclass(frozen=True, slots=True)
class NodeRoll:
    """One round of restarts that began at `began_s` (epoch seconds). Nodes started before that are not done yet, and
    neither are those that started later than now: the clock was ahead.

    So it keeps no state of its own: after a crash, a new instance resumes the round.
    """

    nodes: tuple[str, ...]
    supervisor: SupervisorRpc
    views: NodeViews
    began_s: int
    renew: Callable[[str], object] = lambda _: None
    """Called with the name of a process between its end and its start."""
    may_pause: bool = False
    """Whether a node is stopped even if nobody else can answer for its partitions."""

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
        if not self.began_s <= process.started_at_ms // 1000 <= SystemClock().now_ms() // 1000 + 1:
            return self._restart(node, program, process.state)
        if process.state in ENDED_STATES and process.exit_status in {0, *NO_RESTART}:
            log = self.supervisor.log_end(program)
            raise AppFailedError(
                f"{program} ended with exit code {process.exit_status} after its restart; the nodes behind it were not "
                f"touched and answer. The end of its log:\n{log}"
            )
        return None if self.views.is_warm(node) else f"{program} isn't warm yet"

    def _restart(self, node: str, program: str, state: str) -> str:
        if state in ENDED_STATES:
            self.renew(program)
            self.supervisor.start(program)
            return f"{program} starts"
        if state == "STOPPING":
            return f"{program} is stopping"
        if not self.may_pause:
            view = self.views.cluster()
            if view is None:
                return "no node reports the cluster's replicas"
            alone = held_alone(view, node)
            if alone:
                return f"no other node can answer for {', '.join(alone[:10])}, so {program} has to stay up"
        self.supervisor.stop(program)
        return f"{program} is stopping"


def held_alone(cluster: Mapping[str, Any], node: str) -> list[str]:
    """A node's serving replicas, as store/partition, that no other healthy member of `/state/cluster` serves."""
    own, others = set(), set()
    for member in cluster["members"]:
        serving = {(replica["store"], replica["partition"]) for replica in member["replicas"] if replica["serving"]}
        if member["name"] == node:
            own |= serving
        elif member["heard"] and not member["suspect"]:
            others |= serving
    return [f"{store}/{partition}" for store, partition in sorted(own - others)]


_ASK_S = 5.0


def node_client(settings: ClientSettings) -> httpx2.Client:
    """The HTTP client for nodes, with the settings' credentials and CA.

    Raises:
        ConfigurationError: a file that the settings name can't be used.
    """
    shown = settings.credentials
    return httpx2.Client(timeout=_ASK_S, trust_env=False, headers=shown.headers(), verify=shown.ssl_context())


class NodeViews:
    """Asks nodes over HTTP. A node that refuses counts as one that doesn't answer."""

    def __init__(self, addresses: Mapping[str, str], http: httpx2.Client) -> None:
        self._addresses = addresses
        self._http = http

    def is_warm(self, node: str) -> bool:
        """Whether the node of that name is ready."""
        return self._ask(f"{self._addresses[node]}/readyz") is not None

    def cluster(self) -> Mapping[str, Any] | None:
        """The `/state/cluster` answer of the first node that answers; None if none does."""
        for address in self._addresses.values():
            answer = self._ask(f"{address}/state/cluster")
            if answer is not None:
                return answer.json()
        return None

    def _ask(self, url: str) -> httpx2.Response | None:
        try:
            return self._http.get(url).raise_for_status()
        except httpx2.HTTPError:
            return None
