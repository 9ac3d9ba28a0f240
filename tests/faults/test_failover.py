"""Three nodes, two replicas of each of twelve partitions, writers, and faults: no answer is wrong, none fails.

The oracle stands outside: each key counts up, so an answer must lie between what was acknowledged a while ago and what
was sent. `pytest --long` lets every fault happen more often and for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.broker import Broker
from tests.faults.failover.faults import FAULTS, Scene
from tests.faults.failover.load import BareLoad, ClientLoad, Outcome
from tests.faults.failover.nodes import STORE, running_cluster
from tests.faults.failover.oracle import PARTITIONS, Oracle, Writer
from tests.waiting import eventually

pytestmark = pytest.mark.broker

KEYS = [f"{number:05d}" for number in range(600)]
TOLERANCE_S = 3.0
MOST_REFUSAL_S = 1.0


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
    for name in (topic, f"{topic}-windows"):
        broker.create_topic(name, PARTITIONS, {"cleanup.policy": "compact"})
    oracle, windows = Oracle(KEYS, TOLERANCE_S), Oracle(KEYS[:60], TOLERANCE_S)
    writer = Writer(broker.bootstrap, topic, oracle, per_second)
    window_writer = Writer(broker.bootstrap, f"{topic}-windows", windows, per_second // 10, window=True)
    writer.write_all()
    window_writer.write_all()
    with running_cluster(broker, tmp_path_factory.mktemp("failover"), topic, "a", "b", "c") as cluster:
        scene = Scene(cluster, oracle, writer, set(), seconds)
        client = ClientLoad(cluster.addresses(), oracle, windows, per_second=per_second / 4)
        bare = BareLoad(scene.survivors, oracle)
        with writer, window_writer, client, bare:
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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_answer_is_wrong_and_none_fails(stage: Stage, fault: Callable[[Scene], None]) -> None:
    stage.play(fault)
