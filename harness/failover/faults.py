"""What happens to a cluster under load: deaths, stops, cuts, slowness, guests."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.failover.nodes import TROUBLED, Cluster
from harness.failover.oracle import Oracle, Writer
from harness.node_process import NodeProcess
from harness.sigstop_pause import sigstop_pause
from harness.waiting import eventually

SLOW_S = 0.3
GUESTS = ("d", "e")
_AWAY_S = 2.0
_ALIVE_S = 120

Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Return:
    """A killed node that was started again.

    Attributes:
        node: its name.
        had: how many records of its changelogs were in its replicas when it was killed.
        replayed: how many of those it read once more.
        missed: how many it read that it had not had.
        ready_s: from the start of its process until every replica answered.
    """

    node: str
    had: int
    replayed: int
    missed: int
    ready_s: float


@dataclass(slots=True)
class Scene:
    """A cluster under load.

    Attributes:
        gone: the nodes that the bare client doesn't ask now; it never asks guests.
        seconds: how long a fault lasts.
        kills: how often a node is killed, each in its turn.
        returns: what became of those that were.
    """

    cluster: Cluster
    oracle: Oracle
    writer: Writer
    gone: set[str]
    seconds: float
    kills: int = 1
    returns: list[Return] = field(default_factory=list)

    def survivors(self) -> Sequence[str]:
        """The addresses of the nodes that are there."""
        return self.cluster.addresses(*self.gone, *GUESTS)

    def prepare_guests(self) -> None:
        """So that what a start of Python takes isn't taken from the nodes while guests come and go."""
        for guest in self.guests():
            guest.prepare()

    def guests(self) -> list[NodeProcess]:
        """Nodes that aren't there all the time."""
        return [self.cluster.nodes.get(name) or self.cluster.add(name) for name in GUESTS]

    def last(self, share: float = 1.0) -> None:
        """Lets things go on for a while."""
        time.sleep(self.seconds * share)


def kill_and_return(scene: Scene) -> None:
    """Kills one node after the other, and starts each again."""
    for name in itertools.islice(itertools.cycle("bca"), scene.kills):
        scene.gone.add(name)
        returned = _killed(scene, name)
        scene.gone.discard(name)
        scene.returns.append(returned)
        assert returned.had > 0
        assert returned.replayed == 0, f"{returned}: the node read again what it had"
        assert not scene.cluster.nodes[name].events("replica_wiped")


def _killed(scene: Scene, name: str) -> Return:
    node = scene.cluster.nodes[name]
    had = {where: replica["offset"] or 0 for where, replica in _replicas(node).items()}
    node.kill()
    time.sleep(_AWAY_S)
    told_before = len(node.events("restore_started"))
    began_s = time.monotonic()
    node.start()
    node.wait_ready()
    ready_s = time.monotonic() - began_s
    began = _first_offsets(node.events("restore_started")[told_before:])
    return Return(
        node=name,
        had=sum(had.values()),
        replayed=sum(max(0, offset - began[where]) for where, offset in had.items() if where in began),
        missed=sum(replica["restored_records"] for replica in _replicas(node).values()),
        ready_s=ready_s,
    )


def _replicas(node: NodeProcess) -> dict[Where, dict[str, Any]]:
    replicas = node.get("/state/lag").json()["replicas"]
    return {(replica["store"], replica["partition"]): replica for replica in replicas}


def _first_offsets(lines: Sequence[str]) -> dict[Where, int]:
    """From where each replica was read first."""
    found: dict[Where, int] = {}
    for line in lines:
        event = json.loads(line)
        found.setdefault((event["store"], event["partition"]), event["offset"])
    return found


def stop_and_continue(scene: Scene) -> None:
    """Stops a node's process with SIGSTOP, and continues it."""
    node = scene.cluster.nodes[TROUBLED]
    scene.gone.add(TROUBLED)
    with sigstop_pause(node.pid):
        scene.last()
    scene.gone.discard(TROUBLED)
    scene.last(0.5)


def cut_requests(scene: Scene) -> None:
    """Lets no request through to a node."""
    _cut(scene, requests=True)


def cut_answers(scene: Scene) -> None:
    """Lets no answer of a node through."""
    _cut(scene, answers=True)


def cut_both_ways(scene: Scene) -> None:
    """Lets nothing through to a node or from it."""
    _cut(scene, requests=True, answers=True)


def _cut(scene: Scene, *, requests: bool = False, answers: bool = False) -> None:
    proxy = scene.cluster.proxies[TROUBLED]
    proxy.cut(requests=requests, answers=answers)
    scene.last()
    proxy.heal()
    scene.last(0.5)


def cut_off_from_everybody(scene: Scene) -> None:
    """The broker can't be reached either: the node doesn't hear what it misses, and must not pretend to know."""
    cluster = scene.cluster
    ways = (cluster.proxies[TROUBLED], cluster.to_broker)
    for way in ways:
        way.cut(requests=True, answers=True)
    scene.last()
    for way in ways:
        way.heal()
    scene.last(0.5)


def slow_peer(scene: Scene) -> None:
    """Delays all that goes to a node and comes from it."""
    proxy = scene.cluster.proxies[TROUBLED]
    proxy.slow_down(SLOW_S)
    scene.last(1.5)
    proxy.heal()


def join_and_leave(scene: Scene) -> None:
    """Each second a guest joins or leaves; so often at least, where a process takes longer than that to start."""
    guests = scene.guests()
    next(iter(guests)).start()
    until_s = time.monotonic() + scene.seconds * 2
    for coming, leaving in itertools.cycle((guests[::-1], guests)):
        time.sleep(1)
        coming.start()
        eventually(lambda node=leaving: node.status("/livez") == 200, _ALIVE_S, "the guest is there")  # type: ignore[misc]
        time.sleep(1)
        assert leaving.stop() == 0
        if time.monotonic() >= until_s:
            eventually(lambda node=coming: node.status("/livez") == 200, _ALIVE_S, "the guest is there")  # type: ignore[misc]
            assert coming.stop() == 0
            return


FAULTS: tuple[Callable[[Scene], None], ...] = (
    kill_and_return,
    stop_and_continue,
    cut_requests,
    cut_answers,
    cut_both_ways,
    cut_off_from_everybody,
    slow_peer,
    join_and_leave,
)
