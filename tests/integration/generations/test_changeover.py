"""A store changes over to another topic, with other partitions, and back, while it is read and written: real nodes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from harness.broker import Broker
from harness.changelog_writer import KafkaChangelogWriter
from harness.meanwhile import running
from harness.node_process import COMPACTED, HEADERS, NodeProcess, make_nodes, started
from harness.waiting import eventually
from storekeeper.client.client import StateClient
from storekeeper.node.cluster.aliases import Alias, publish_alias
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.protocol.position_token import PositionToken

pytestmark = pytest.mark.broker

KEYS = [f"{number:03d}" for number in range(60)]
ALLOWED_ROUNDS = 100
"""The most rounds that an answer may miss: five seconds of a quiet machine, more of a busy one, which writes slowly."""
OLD_FORMAT, NEW_FORMAT = 1, 2


@dataclass
class Store:
    """Both changelogs of a store, written as two generations of an app write them: the same changes in two formats."""

    broker: Broker
    old: str
    new: str
    stopped: threading.Event = field(default_factory=threading.Event)
    acknowledged: int = 0

    def write(self) -> None:
        """Writes rounds of all keys until it is stopped, each numbered."""
        number = 0
        with (
            KafkaChangelogWriter(self.broker.bootstrap, self.old) as old,
            KafkaChangelogWriter(self.broker.bootstrap, self.new) as new,
        ):
            while not self.stopped.is_set():
                number += 1
                for writer, form in ((new, NEW_FORMAT), (old, OLD_FORMAT)):
                    value = json.dumps({"round": number, "format": form}).encode()
                    writer.write([(key.encode(), value) for key in KEYS], HEADERS)
                new.flush()
                old.flush()
                self.acknowledged = number
                self.stopped.wait(0.05)

    def owed(self) -> int:
        """The last round that every answer must show."""
        return self.acknowledged - ALLOWED_ROUNDS


@dataclass
class Reader:
    """Reads key after key from one node until it is stopped, and notes what must not be."""

    node: NodeProcess
    store: Store
    stopped: threading.Event = field(default_factory=threading.Event)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)
    formats: list[int] = field(default_factory=list)

    def read(self) -> None:
        """Runs in a thread."""
        with httpx2.Client(trust_env=False, timeout=20) as client:
            while not self.stopped.wait(0.004):
                key = KEYS[self.reads % len(KEYS)]
                owed = self.store.owed()
                try:
                    answer = client.get(f"{self.node.address}/state/keyvalue/rewards/{key}")
                except httpx2.HTTPError as error:
                    self.wrong.append(repr(error))
                    continue
                self.reads += 1
                value = answer.json().get("value") if answer.status_code == 200 else None
                if value is None or value["round"] < owed:
                    self.wrong.append(f"{key}: {answer.status_code} {answer.text[:300]}, owed round {owed}")
                elif not self.formats or self.formats[-1] != value["format"]:
                    self.formats.append(value["format"])


@pytest.fixture
def store(broker: Broker) -> Iterator[Store]:
    """A store that is being written to two topics, of 4 and of 6 partitions."""
    found = Store(broker, "changeover-old", "changeover-new")
    broker.create_topic(found.old, 4, COMPACTED)
    broker.create_topic(found.new, 6, COMPACTED)
    with running(found.write, found.stopped):
        eventually(lambda: found.acknowledged > 0, 30, "a first round is written")
        yield found


@pytest.fixture
def nodes(broker: Broker, store: Store, tmp_path: Path) -> Iterator[list[NodeProcess]]:
    """Two ready nodes that share the partitions, so that each must ask the other, and has nobody else to ask."""
    # A machine that is slow for a moment is not what is tested.
    patience_ms = 15_000
    folder, served = tmp_path / "run", f"rewards={store.old}"
    made = make_nodes(
        broker,
        folder,
        served,
        replicas=0,
        constants={
            "storekeeper.node.cluster.replica_reconciler:ReconcilerSettings.handover_s": 0.5,
            "storekeeper.node.query.forwarding:FORWARD_TIMEOUT_MS": patience_ms,
        },
    )
    with started(made):
        for node in made:
            node.wait_ready()
        yield made


@pytest.fixture
def readers(nodes: list[NodeProcess], store: Store) -> Iterator[list[Reader]]:
    """One reader of each node."""
    found = [Reader(node, store) for node in nodes]
    with ExitStack() as stack:
        for reader in found:
            stack.enter_context(running(reader.read, reader.stopped))
        yield found


def _topics(node: NodeProcess) -> tuple[str, str | None, int | None]:
    told = node.get("/state/stores/rewards").json()
    return told["topic"], told["warm_topic"], told["generation"]


def _answering_from(nodes: list[NodeProcess], topic: str) -> bool:
    return all(_topics(node)[0] == topic for node in nodes)


def _warm(node: NodeProcess, topic: str) -> bool:
    replicas = [found for found in node.get("/state/lag").json()["replicas"] if found["topic"] == topic]
    return bool(replicas) and all(found["serving"] for found in replicas)


def _go_on_reading(readers: list[Reader]) -> None:
    """Lets every reader ask for every key."""
    marks = [reader.reads + 2 * len(KEYS) for reader in readers]
    eventually(lambda: all(r.reads >= mark for r, mark in zip(readers, marks, strict=True)), 60, "all keys are read")


def _check_every_way_of_asking(node: NodeProcess, store: Store) -> None:
    """All routes answer from the new topic, and none shows how its rows are called inside."""
    key = KEYS[0]
    for path in (
        f"/state/keyvalues/rewards?key={key}&key={KEYS[1]}",
        "/state/keyvalues/rewards/range/000/009",
        "/state/keyvalues/rewards/prefix/00",
        "/state/keyvalues/rewards/all?reverse=true&limit=5",
    ):
        found = node.answer(path).json()
        rows = found["rows"] if isinstance(found, dict) else found
        assert {row["value"]["format"] for row in rows} == {NEW_FORMAT}, path
    streamed = node.answer("/state/keyvalues/rewards/all", headers={"accept": "application/x-ndjson"}).text.splitlines()
    assert json.loads(streamed[-1]) == {"complete": True, "rows": len(KEYS)}
    unknown = node.answer("/state/keyvalue/rewards/nobody")
    assert (unknown.status_code, "@" in unknown.text) == (404, False)
    where = node.answer(f"/state/metadata/rewards/{key}").json()
    assert (where["store"], where["topic"]) == ("rewards", store.new)
    assert node.answer(f"/state/instance/rewards/{key}").json()["storeNames"] == ["rewards"]
    assert len(node.answer("/state/instances/rewards").json()) == 2
    assert [len(found) for found in node.answer("/state/cluster").json()["assignment"].values()] == [6]
    link = node.answer("/state/keyvalues/rewards/all?limit=1").headers["link"]
    assert link.startswith("</state/keyvalues/rewards/all?")
    with StateClient([node.address]) as client:
        assert client.key_value("rewards").get(key).value["format"] == NEW_FORMAT


@pytest.mark.long("test_handover.py has it with played apps")
def test_a_store_changes_over_and_back_while_it_is_read(
    nodes: list[NodeProcess], readers: list[Reader], store: Store, tmp_path: Path
) -> None:
    secret = load_cluster_secret(tmp_path / "run" / "secrets" / "cluster.key")
    decided = iter(range(1, 100))

    def publish(generation: int, topic: str, previous: str | None, *, prepare: bool = False) -> None:
        alias = Alias("rewards", generation, topic, previous, next(decided), prepare=prepare)
        publish_alias(store.broker.kafka, secret, alias)

    _go_on_reading(readers)
    token = nodes[0].answer(f"/state/keyvalue/rewards/{KEYS[0]}").headers["storekeeper-position"]
    cursor = nodes[0].answer("/state/keyvalues/rewards/all?limit=20").headers["storekeeper-next-cursor"]

    publish(2, store.new, store.old, prepare=True)
    eventually(lambda: all(_warm(node, store.new) for node in nodes), 60, "the new topic is warm")
    _go_on_reading(readers)
    assert _answering_from(nodes, store.old)
    assert _topics(nodes[0]) == (store.old, store.new, None)

    publish(2, store.new, store.old)
    eventually(lambda: _answering_from(nodes, store.new), 60, "both nodes have changed over")
    _go_on_reading(readers)
    assert _topics(nodes[1]) == (store.new, store.old, 2)
    assert (
        nodes[0].answer(f"/state/keyvalue/rewards/{KEYS[0]}?position={token}").json()["value"]["format"] == NEW_FORMAT
    )
    rest = nodes[1].answer(f"/state/keyvalues/rewards/all?limit=1000&cursor={cursor}")
    assert [row["key"] for row in rest.json()] == KEYS[20:], "a page turned across the change"
    assert {row["value"]["format"] for row in rest.json()} == {NEW_FORMAT}
    assert PositionToken.parse(rest.headers["storekeeper-position"]).changelog.offset(store.new, 5) is not None

    for node in nodes:
        _check_every_way_of_asking(node, store)

    publish(1, store.old, store.new)
    eventually(lambda: _answering_from(nodes, store.old), 60, "both nodes have gone back")
    _go_on_reading(readers)

    publish(2, store.new, store.old)
    eventually(lambda: _answering_from(nodes, store.new), 60, "both nodes have changed over again")
    publish(2, store.new, None)
    eventually(lambda: not any(_warm(node, store.old) for node in nodes), 60, "the old topic is let go of")
    _go_on_reading(readers)

    assert not [wrong for reader in readers for wrong in reader.wrong]
    assert [reader.formats[:4] for reader in readers] == [[1, 2, 1, 2]] * 2, "each node changes once, and never wavers"

    nodes[0].stop()
    nodes[0].start()
    nodes[0].wait_ready()
    assert _topics(nodes[0]) == (store.new, None, 2), "a node that starts takes up what the alias says"
