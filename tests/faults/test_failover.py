"""Three nodes, two replicas of each of twelve partitions, writers, and faults: no answer is wrong, none fails.

The oracle stands outside: each key counts up, so an answer must lie between what was acknowledged a while ago and what
was sent. `pytest --long` lets every fault happen more often and for longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from harness.broker import Broker
from harness.failover.faults import FAULTS, GUESTS, Scene, cut_answers, cut_requests, slow_peer
from harness.failover.load import BareLoad, ClientLoad, Outcome
from harness.failover.nodes import STORE, running_cluster
from harness.failover.oracle import PARTITIONS, Oracle, Writer
from harness.waiting import eventually
from storekeeper.client.exchange import ClientLimits

pytestmark = pytest.mark.broker

_AT_ONCE = {"STOREKEEPER_JOIN_DELAY_MS": "0"}
"""Guests, too, are given partitions: the harder case."""
KEYS = [f"{number:05d}" for number in range(600)]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much happens, and what is asked of the times: nothing where other work may keep the machine busy.

    Attributes:
        seconds: how long a fault lasts.
        kills: how often a node is killed.
        updates: how many a second.
        queries: how many a second.
        tolerance_s: an answer may miss what was acknowledged within so long, if it doesn't say itself how much.
        timeout_s: of a query of the client.
    """

    seconds: float
    kills: int
    updates: int
    queries: float
    tolerance_s: float
    timeout_s: float


SHORT = Sizes(seconds=2.0, kills=1, updates=200, queries=50, tolerance_s=60, timeout_s=120)
LONG = Sizes(seconds=15.0, kills=6, updates=2000, queries=500, tolerance_s=3, timeout_s=ClientLimits().timeout_s)


@dataclass(frozen=True, slots=True)
class Stage:
    """The scene and those who ask."""

    scene: Scene
    client: ClientLoad
    bare: BareLoad
    sizes: Sizes

    def play(self, fault: Callable[[Scene], None]) -> None:
        """Lets a fault happen, then looks at every answer that was given meanwhile."""
        self._await_answers()
        self.client.outcome = outcome = Outcome()
        self.bare.forget()
        fault(self.scene)
        self._await_answers()
        assert (outcome.wrong[:3], self.bare.wrong[:3]) == ([], [])
        assert outcome.failed[:3] == []

    def _await_answers(self) -> None:
        """Both clients are answered: before a fault they are at work, after it they are again."""
        points, bare = self.client.outcome.kinds["point"] + 10, self.bare.answered
        eventually(lambda: self.client.outcome.kinds["point"] > points, 120, "the client is answered")
        eventually(lambda: self.bare.answered > bare, 60, "the bare client is answered")


@pytest.fixture(scope="module")
def stage(broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Three ready nodes under load, for all faults one after the other."""
    sizes = LONG if request.config.getoption("--long") else SHORT
    topic = "failover"
    for name in (topic, f"{topic}-windows"):
        broker.create_topic(name, PARTITIONS, {"cleanup.policy": "compact"})
    oracle, windows = Oracle(KEYS, sizes.tolerance_s), Oracle(KEYS[:60], sizes.tolerance_s)
    writer = Writer(broker.bootstrap, topic, oracle, sizes.updates)
    window_writer = Writer(broker.bootstrap, f"{topic}-windows", windows, sizes.updates // 10, window=True)
    writer.write_all()
    window_writer.write_all()
    folder = tmp_path_factory.mktemp("failover")
    with running_cluster(broker, folder, topic, "a", "b", "c", settings=_AT_ONCE) as cluster:
        scene = Scene(cluster, oracle, writer, set(), sizes.seconds, sizes.kills)
        client = ClientLoad(cluster.announced(), oracle, windows, per_second=sizes.queries, timeout_s=sizes.timeout_s)
        bare = BareLoad(scene.survivors, oracle)
        with writer, window_writer, client, bare:
            yield Stage(scene, client, bare, sizes)
        check_final_state(scene)


def check_final_state(scene: Scene) -> None:
    """Every node that runs gives exactly what was written last."""
    for name, node in scene.cluster.nodes.items():
        if name in scene.gone or name in GUESTS:
            continue
        for key in KEYS[::7]:
            wanted = {"n": scene.oracle.last(key)}
            eventually(lambda node=node, key=key, wanted=wanted: node.value(key, STORE) == wanted, 60, f"{name}: {key}")  # type: ignore[misc]


_LONG = pytest.mark.long("test_failover.py cuts both ways, and stops a node")
_HALVES = {cut_requests, cut_answers, slow_peer}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, id=fault.__name__, marks=_LONG if fault in _HALVES else []) for fault in FAULTS]
)
def test_no_answer_is_wrong_and_none_fails(stage: Stage, fault: Callable[[Scene], None]) -> None:
    stage.play(fault)
