"""Three nodes, two replicas of each of twelve partitions, a writer, and faults: no answer is wrong, none fails.

The oracle stands outside: each key counts up, so an answer must lie between what was acknowledged a while ago and what
was sent. `pytest --long` lets every fault happen more often and for longer.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.broker import Broker
from tests.faults.failover.load import BareLoad, ClientLoad, Outcome
from tests.faults.failover.nodes import STORE, Cluster, running_cluster
from tests.faults.failover.oracle import Oracle, Writer
from tests.integration.node_process import NodeProcess
from tests.waiting import eventually

pytestmark = pytest.mark.broker

KEYS = [f"{number:05d}" for number in range(600)]
PARTITIONS = 12
TOLERANCE_S = 3.0
MOST_REFUSAL_S = 1.0


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


@dataclass(frozen=True, slots=True)
class Stage:
    """The scene and those who ask."""

    scene: Scene
    client: ClientLoad
    bare: BareLoad

    def play(self, fault: Callable[[Scene], None]) -> None:
        """Lets a fault happen, then looks at every answer that was given meanwhile."""
        self.client.outcome = outcome = Outcome()
        self.bare.forget()
        fault(self.scene)
        time.sleep(0.5)
        assert outcome.asked > 30 * self.scene.seconds, "there was hardly any load"
        assert (outcome.wrong[:3], self.bare.wrong[:3]) == ([], [])
        assert outcome.failed[:3] == []
        assert self.bare.longest_refusal_s <= MOST_REFUSAL_S, self.bare.refusals[-3:]


@pytest.fixture(scope="module")
def stage(broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Three ready nodes under load, for all faults one after the other."""
    seconds, per_second = (15.0, 2000) if request.config.getoption("--long") else (2.0, 400)
    topic = "failover"
    broker.create_topic(topic, PARTITIONS, {"cleanup.policy": "compact"})
    oracle = Oracle(KEYS, TOLERANCE_S)
    writer = Writer(broker.bootstrap, topic, oracle, per_second)
    writer.write_all()
    with running_cluster(broker, tmp_path_factory.mktemp("failover"), topic, "a", "b", "c") as cluster:
        scene = Scene(cluster, oracle, writer, set(), seconds)
        client = ClientLoad(cluster.addresses(), oracle, STORE, per_second=per_second / 4)
        bare = BareLoad(scene.survivors, oracle, STORE)
        with writer, client, bare:
            yield Stage(scene, client, bare)
        check_final_state(scene)


def check_final_state(scene: Scene) -> None:
    """Every node that runs gives exactly what was written last."""
    for name, node in scene.cluster.nodes.items():
        if name in scene.gone:
            continue
        for key in KEYS[::7]:
            wanted = {"n": scene.oracle.last(key)}
            eventually(lambda node=node, key=key, wanted=wanted: node.value(key, STORE) == wanted, 20, f"{name}: {key}")  # type: ignore[misc]


def kill_and_return(scene: Scene) -> None:
    for name in itertools.islice(itertools.cycle("bca"), max(1, int(scene.seconds / 4))):
        node = scene.cluster.nodes[name]
        held = {p: replica["offset"] for p, replica in node.replicas().items()}
        scene.gone.add(name)
        node.kill()
        written = scene.writer.written
        time.sleep(2)
        node.start()
        node.wait_ready()
        scene.gone.discard(name)
        missed = scene.writer.written - written
        replayed = sum(replica["restored_records"] for p, replica in node.replicas().items() if p in held)
        assert held
        assert replayed <= missed + 3000, "the node replayed more than it had missed"
        assert not node.events("replica_wiped")


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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_answer_is_wrong_and_none_fails(stage: Stage, fault: Callable[[Scene], None]) -> None:
    stage.play(fault)
