"""What happens to a cluster under load: deaths, stops, cuts, slowness, guests."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.failover.nodes import Cluster
from tests.faults.failover.oracle import Oracle, Writer
from tests.integration.node_process import NodeProcess
from tests.waiting import eventually


@dataclass(slots=True)
class Scene:
    """A cluster under load. `gone` are the nodes that the bare client doesn't ask now."""

    cluster: Cluster
    oracle: Oracle
    writer: Writer
    gone: set[str]
    seconds: float

    def survivors(self) -> Sequence[str]:
        """The addresses of the nodes that are there."""
        return self.cluster.addresses(*self.gone)

    def last(self) -> None:
        """Lets the fault go on for a while."""
        time.sleep(self.seconds)


def kill_and_return(scene: Scene) -> None:
    for name in itertools.islice(itertools.cycle("bca"), max(1, int(scene.seconds / 4))):
        node = scene.cluster.nodes[name]
        held = _replicas(node).keys()
        scene.gone.add(name)
        node.kill()
        written = scene.writer.written
        time.sleep(2)
        node.start()
        node.wait_ready()
        scene.gone.discard(name)
        missed = scene.writer.written - written
        replayed = sum(replica["restored_records"] for which, replica in _replicas(node).items() if which in held)
        assert held
        assert replayed <= missed + 3000, "the node replayed more than it had missed"
        assert not node.events("replica_wiped")


def _replicas(node: NodeProcess) -> dict[tuple[str, int], dict[str, Any]]:
    replicas = node.get("/state/lag").json()["replicas"]
    return {(replica["store"], replica["partition"]): replica for replica in replicas}


def stop_and_continue(scene: Scene) -> None:
    node = scene.cluster.nodes["b"]
    scene.gone.add("b")
    node.send(signal.SIGSTOP)
    scene.last()
    node.send(signal.SIGCONT)
    scene.gone.discard("b")
    scene.last()


def cut_requests(scene: Scene) -> None:
    _with_proxy(scene, drop_requests=True)


def cut_answers(scene: Scene) -> None:
    _with_proxy(scene, drop_answers=True)


def cut_both_ways(scene: Scene) -> None:
    _with_proxy(scene, drop_requests=True, drop_answers=True)


def slow_peer(scene: Scene) -> None:
    _with_proxy(scene, delay_s=0.3)


def _with_proxy(scene: Scene, *, drop_requests: bool = False, drop_answers: bool = False, delay_s: float = 0) -> None:
    proxy = scene.cluster.proxies["b"]
    proxy.drop_requests, proxy.drop_answers, proxy.delay_s = drop_requests, drop_answers, delay_s
    scene.last()
    proxy.heal()
    scene.last()


def join_and_leave(scene: Scene) -> None:
    until_s = time.monotonic() + scene.seconds * 2
    guest: NodeProcess = scene.cluster.add("d")
    scene.gone.add("d")
    while time.monotonic() < until_s:
        guest.start()
        eventually(lambda: guest.status("/livez") == 200, 30, "the guest is there")
        time.sleep(1)
        assert guest.stop() == 0
        time.sleep(1)


FAULTS: tuple[Callable[[Scene], None], ...] = (
    kill_and_return,
    stop_and_continue,
    cut_requests,
    cut_answers,
    cut_both_ways,
    slow_peer,
    join_and_leave,
)
