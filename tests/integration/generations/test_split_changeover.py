"""Nodes change over from a store to its two parts, back, over again and together once more, while all are read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx2
import pytest

from state.changelog.writer import KafkaChangelogWriter
from state.client import StateClient
from state.cluster.alias_topic import publish_alias
from state.cluster.aliases import Alias
from state.errors import UnknownStoreError
from state.security.cluster_secret import load_cluster_secret
from tests.broker import Broker
from tests.integration.node_process import COMPACTED, HEADERS, NodeProcess, make_nodes, started
from tests.meanwhile import running
from tests.waiting import eventually

pytestmark = pytest.mark.broker

KEYS = [f"{number:03d}" for number in range(40)]
WHOLE, EVEN, ODD, MERGED = "split-whole", "split-even", "split-odd", "split-merged"
PARTS = {"points-even": EVEN, "points-odd": ODD}
ALLOWED_ROUNDS = 100
"""An answer may miss so many: about five seconds of a quiet machine, more of a busy one, which writes more slowly."""


def part_of(key: str) -> str:
    """The part that a key is in."""
    return "points-odd" if int(key) % 2 else "points-even"


@dataclass
class Writer:
    """Writes rounds of all keys, as generations of an app write them: as a whole, in parts, and as a whole again."""

    broker: Broker
    stopped: threading.Event = field(default_factory=threading.Event)
    acknowledged: int = 0

    def run(self) -> None:
        """Runs in a thread."""
        with ExitStack() as stack:
            writers = {
                topic: stack.enter_context(KafkaChangelogWriter(self.broker.bootstrap, topic))
                for topic in (WHOLE, EVEN, ODD, MERGED)
            }
            for number in count(1):
                for key in KEYS:
                    row = (key.encode(), json.dumps({"round": number, "points": int(key)}).encode())
                    for topic in (WHOLE, PARTS[part_of(key)], MERGED):
                        writers[topic].write([row], HEADERS)
                for writer in writers.values():
                    writer.flush()
                self.acknowledged = number
                if self.stopped.wait(0.05):
                    return

    def owed(self) -> int:
        """The last round that every answer must show."""
        return self.acknowledged - ALLOWED_ROUNDS


@dataclass
class Reader:
    """Asks a node for key after key of `whole`, or of its parts, until it is stopped; notes what must not be."""

    node: NodeProcess
    writer: Writer
    whole: bool = True
    stopped: threading.Event = field(default_factory=threading.Event)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Runs in a thread."""
        with httpx2.Client(trust_env=False, timeout=20) as client:
            while not self.stopped.wait(0.005):
                key = KEYS[self.reads % len(KEYS)]
                store, owed = "points" if self.whole else part_of(key), self.writer.owed()
                self.reads += 1
                try:
                    answer = client.get(f"{self.node.address}/state/keyvalue/{store}/{key}")
                except httpx2.HTTPError as error:
                    self.wrong.append(repr(error))
                    continue
                if answer.status_code != 200 or answer.json()["value"]["round"] < owed:
                    self.wrong.append(f"{store}/{key}: {answer.status_code} {answer.text[:200]}, owed round {owed}")


@pytest.fixture
def nodes(broker: Broker, tmp_path: Path) -> Iterator[list[NodeProcess]]:
    """Two nodes that share the partitions of a ranked store, while it is written."""
    for topic, partitions in ((WHOLE, 2), (EVEN, 2), (ODD, 2), (MERGED, 3)):
        broker.create_topic(topic, partitions, COMPACTED)
    made = make_nodes(
        broker,
        tmp_path / "run",
        f"points={WHOLE}:ranked:points",
        replicas=0,
        handover_ms=500,
        forward_timeout_ms=15_000,
    )
    with started(made):
        for node in made:
            node.wait_ready()
        yield made


@pytest.fixture
def readers(broker: Broker, nodes: list[NodeProcess]) -> Iterator[list[Reader]]:
    """One of each node, and what they read is written all the time."""
    writer = Writer(broker)
    found = [Reader(node, writer) for node in nodes]
    with ExitStack() as stack:
        stack.enter_context(running(writer.run, writer.stopped))
        eventually(lambda: all(is_served(node) for node in nodes), 60, "a first round is served")
        for reader in found:
            stack.enter_context(running(reader.run, reader.stopped))
        yield found


def is_served(node: NodeProcess) -> bool:
    """Whether a node answers with a row for each key."""
    return all(node.status(f"/state/keyvalue/points/{key}") == 200 for key in KEYS)


def await_names(nodes: list[NodeProcess], *names: str) -> None:
    """Waits until every node can be asked for these stores, and no others."""
    eventually(lambda: all(stores(node).keys() == set(names) for node in nodes), 60, f"{names} can be asked for")


def stores(node: NodeProcess) -> Mapping[str, str]:
    """The stores that a node can be asked for, with their topics."""
    return {found["store"]: found["topic"] for found in node.get("/state/stores").json()}


def go_on(readers: list[Reader], *, whole: bool) -> None:
    """Lets every reader ask for every key, in that way."""
    for reader in readers:
        reader.whole = whole
    marks = [reader.reads + 2 * len(KEYS) for reader in readers]
    eventually(lambda: all(r.reads >= mark for r, mark in zip(readers, marks, strict=True)), 60, "all keys are read")


def test_a_store_gives_way_to_its_parts_and_they_to_it_while_all_are_read(
    nodes: list[NodeProcess], readers: list[Reader], broker: Broker, tmp_path: Path
) -> None:
    secret = load_cluster_secret(tmp_path / "run" / "secrets" / "cluster.key")

    def publish(alias: Alias) -> None:
        publish_alias(broker.bootstrap, secret, alias)

    apart = Alias("points", 2, EVEN, WHOLE, 1, prepare=True, parts=PARTS)
    publish(apart)
    held = {"points", *(f"{name}@{topic}" for name, topic in PARTS.items())}
    eventually(lambda: {found for node in nodes for found in replicas_of(node)} == held, 60, "the parts are held")
    assert [stores(node) for node in nodes] == [{"points": WHOLE}] * 2, "and not answered yet"

    publish(Alias("points", 2, EVEN, WHOLE, 2, parts=PARTS))
    await_names(nodes, "points", *PARTS)
    go_on(readers, whole=False)
    go_on(readers, whole=True)
    for node in nodes:
        check_every_way_of_asking(node)

    publish(Alias("points", 1, WHOLE, EVEN, 3, previous_parts=PARTS))
    go_on(readers, whole=False)
    publish(Alias("points", 2, EVEN, WHOLE, 4, parts=PARTS))
    go_on(readers, whole=False)
    publish(Alias("points", 2, EVEN, None, 5, parts=PARTS, former=("points",)))
    await_names(nodes, *PARTS)
    check_moved(nodes, "points", [*PARTS])
    assert not [wrong for reader in readers for wrong in reader.wrong]
    nodes[0].stop()
    nodes[0].start()
    nodes[0].wait_ready()
    assert stores(nodes[0]) == PARTS, "a node that starts takes up what the alias says"
    go_on(readers, whole=False)
    for reader in readers:
        reader.wrong.clear()  # it was away, and nobody else held what it holds
    go_on(readers, whole=False)

    publish(Alias("points", 3, MERGED, EVEN, 6, prepare=True, previous_parts=PARTS))
    go_on(readers, whole=False)
    check_moved(nodes, "points", [*PARTS])
    publish(Alias("points", 3, MERGED, EVEN, 7, previous_parts=PARTS))
    await_names(nodes, "points", *PARTS)
    go_on(readers, whole=True)
    publish(Alias("points", 3, MERGED, None, 8, former=tuple(PARTS)))
    await_names(nodes, "points")
    check_moved(nodes, "points-odd", ["points"])
    go_on(readers, whole=True)
    assert stores(nodes[1]) == {"points": MERGED}
    assert not [wrong for reader in readers for wrong in reader.wrong]


def replicas_of(node: NodeProcess) -> set[str]:
    """What a node holds and answers from, if it is asked for."""
    return {found["store"] for found in node.get("/state/lag").json()["replicas"] if found["serving"]}


def check_every_way_of_asking(node: NodeProcess) -> None:
    """A part is a store as any other, of the kind of the one that it was a part of."""
    streamed = node.answer(
        "/state/keyvalues/points-odd/all", headers={"accept": "application/x-ndjson"}
    ).text.splitlines()
    assert json.loads(streamed[-1]) == {"complete": True, "rows": len(KEYS) // 2}
    assert [row["key"] for row in node.answer("/state/ranked/points-odd/top?limit=2").json()] == ["039", "037"]
    unknown = node.answer("/state/keyvalue/points-odd/000")
    assert (unknown.status_code, "@" in unknown.text) == (404, False)
    assert node.answer("/state/metadata/points-odd/001").json()["store"] == "points-odd"
    assert "points-odd" in node.answer("/state/instance/points-odd/001").json()["storeNames"]
    assert node.answer("/state/cluster").json()["assignment"].keys() == {"points", *PARTS}
    assert [found["store"] for found in node.answer("/state/topology").json()["stores"]] == ["points", *PARTS]
    details = node.answer("/state/stores/points-odd").json()
    assert (details["topic"], details["generation"], details["kind"]) == (ODD, 2, "ranked")
    with StateClient([node.address]) as client:
        assert client.key_value("points-odd").get("001").value["points"] == 1


def check_moved(nodes: list[NodeProcess], store: str, others: list[str]) -> None:
    """The answer for a store that is gone names the stores that have its rows."""
    for node in nodes:
        gone = node.answer(f"/state/keyvalue/{store}/001")
        assert (gone.status_code, gone.json().get("stores")) == (404, others), gone.text
        with StateClient([node.address]) as client, pytest.raises(UnknownStoreError, match=f"are in {others[0]}"):
            client.key_value(store).get("001")
