"""A changelog that is deleted, or deleted and made anew: no row of the old topic passes for one of the new topic.

Nodes keep the old rows until somebody accepts the new topic: they may be the last copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import httpx2
import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from harness.waiting import eventually
from storekeeper.changelog.listener import logging_listener
from storekeeper.changelog.reader import ReaderSettings
from storekeeper.clock import SystemClock
from storekeeper.errors import StateError
from storekeeper.node.replicas.replica_set import ReplicaSet, ReplicaSpec
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState

pytestmark = pytest.mark.broker

OLD_ROWS = 300
NEW_ROWS = {"fewer": 100, "same": OLD_ROWS, "more": 700}
NODE_ROWS = 280
PARTITIONS = {"merged": 2, "same": 4, "spread": 7}
"""Of the topics that are made anew; before, each has four."""
ANY, FRESH, NO_LAG = "", "?max_staleness_ms=0&wait_ms=100", "?max_lag=0"
NEWEST = (b"k60", b"newest")
RESTARTS = 2
"""Each raises the leader epoch of every topic that is there."""
SECONDS = 30.0


def rows(count: int, value: bytes, first: int = 0) -> list[tuple[bytes, bytes | None]]:
    return [(b"k%d" % number, value) for number in range(first, first + count)]


def make_anew(broker: Broker, topic: str, new: list[tuple[bytes, bytes | None]], partitions: int = 1) -> None:
    broker.delete_topic(topic)
    broker.create_topic(topic, partitions, COMPACTED)
    write(broker, topic, new)


@contextmanager
def following(broker: Broker, folder: Path, topics: Mapping[str, str]) -> Iterator[ReplicaSet]:
    """Partition 0 of each topic, by store."""
    clock = SystemClock()
    specs = [ReplicaSpec(ReplicaId(store, 0), topic, ReplicaRole.ACTIVE) for store, topic in topics.items()]
    storage, reader = RocksDBStorage(folder, clock), ReaderSettings(broker.kafka)
    with ReplicaSet(specs, storage=storage, reader=reader, clock=clock, listener=logging_listener(clock)) as held:
        yield held


def held_rows(held: ReplicaSet, store: str) -> dict[bytes, bytes] | None:
    """The rows, or None while none are served."""
    try:
        with held.replicas[ReplicaId(store, 0)].scan(None, None) as found:
            return {key: row.value for key, row in found}
    except StateError:
        return None


def expect(held: ReplicaSet, store: str, wanted: list[tuple[bytes, bytes | None]]) -> None:
    eventually(lambda: held_rows(held, store) == dict(wanted), SECONDS, f"{store} holds what its topic holds")


_LONG = pytest.mark.long("test_follower.py begins anew with a new topic, test_topic_made_anew.py without a restart")


@pytest.mark.parametrize("restarts", [0, pytest.param(RESTARTS, marks=_LONG)])
def test_replicas_begin_anew_with_the_new_topic(broker: Broker, tmp_path: Path, restarts: int) -> None:
    topics = {store: f"made-anew-{restarts}-{store}" for store in (*NEW_ROWS, "bystander")}
    for topic in topics.values():
        broker.create_topic(topic, 1, COMPACTED)
        write(broker, topic, rows(OLD_ROWS, b"old"))
    for _ in range(restarts):
        broker.restart()
    with following(broker, tmp_path, topics) as held:
        for store in topics:
            expect(held, store, rows(OLD_ROWS, b"old"))
        for store, count in NEW_ROWS.items():
            make_anew(broker, topics[store], rows(count, b"new", first=50))
        for store, count in NEW_ROWS.items():
            expect(held, store, rows(count, b"new", first=50))
        wanted = {store: rows(count, b"new", first=50) for store, count in NEW_ROWS.items()}
        for store, found in (wanted | {"bystander": rows(OLD_ROWS, b"old")}).items():
            write(broker, topics[store], [NEWEST])
            expect(held, store, [*found, NEWEST])


def test_a_topic_made_anew_while_nobody_followed_is_noticed(broker: Broker, tmp_path: Path) -> None:
    topics = {store: f"made-anew-away-{store}" for store in NEW_ROWS}
    for topic in topics.values():
        broker.create_topic(topic, 1, COMPACTED)
        write(broker, topic, rows(OLD_ROWS, b"old"))
    with following(broker, tmp_path, topics) as held:
        for store in topics:
            expect(held, store, rows(OLD_ROWS, b"old"))
    for store, count in NEW_ROWS.items():
        make_anew(broker, topics[store], rows(count, b"new", first=50))
    with following(broker, tmp_path, topics) as held:
        for store, count in NEW_ROWS.items():
            wanted = dict(rows(count, b"new", first=50))
            first = eventually(partial(held_rows, held, store), SECONDS, f"{store} answers")
            assert first == wanted, "nothing is served before it is the new topic's"


def test_a_deleted_topic_leaves_rows_that_grow_old_and_disturbs_no_other(broker: Broker, tmp_path: Path) -> None:
    topics = {store: f"deleted-{store}" for store in ("gone", "stays")}
    for topic in topics.values():
        broker.create_topic(topic, 1, COMPACTED)
        write(broker, topic, rows(OLD_ROWS, b"old"))
    clock = SystemClock()
    with following(broker, tmp_path, topics) as held:
        gone, stays = (held.replicas[ReplicaId(store, 0)] for store in topics)
        for store in topics:
            expect(held, store, rows(OLD_ROWS, b"old"))
        broker.delete_topic(topics["gone"])
        deleted_at_s = clock.monotonic_s()
        eventually(lambda: gone.state is ReplicaState.FAILED, SECONDS, "it says that its topic is gone")
        eventually(lambda: (stays.tracker.fresh_at_s or 0) > deleted_at_s, SECONDS, "the other store's end is told")
        assert (gone.tracker.fresh_at_s or 0) < deleted_at_s, "nothing proves that rows of a deleted topic are fresh"
        assert "doesn't exist" in str(gone.status().error)
        assert (gone.offset_lag, gone.freshness(clock.monotonic_s()).offset_lag) == (None, None)
        assert held_rows(held, "gone") == dict(rows(OLD_ROWS, b"old")), "its last rows are served, as of then"
        make_anew_after(broker, topics["gone"])
        expect(held, "gone", rows(100, b"new"))


def make_anew_after(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, 1, COMPACTED)
    write(broker, topic, rows(100, b"new"))


ACCEPT = [sys.executable, "-m", "storekeeper.cli.entry", "accept-topic"]


def accept(node: NodeProcess, store: str) -> None:
    environment = {**os.environ, **node.environment}  # noqa: TID251 - the child needs PATH and the like
    done = subprocess.run([*ACCEPT, store], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def lost(node: NodeProcess) -> bool:
    """Whether a node says that its changelog is lost."""
    answer = node.get("/readyz")
    return answer.status_code == 503 and "storekeeper accept-topic" in answer.text


def knows(node: NodeProcess, *, recreated: bool) -> bool:
    """Whether a node that has started says that its changelog is lost, or on a new disk that there is none yet."""
    return lost(node) if recreated else node.status("/readyz") == 503


@pytest.mark.parametrize("recreated", [True, False])
def test_nodes_keep_the_rows_of_a_lost_changelog_until_somebody_accepts_another(
    broker: Broker, tmp_path: Path, recreated: bool
) -> None:
    store, topic = "kept", f"lost-{recreated}"
    broker.create_topic(topic, 4, COMPACTED)
    write(broker, topic, rows(20, b'{"from": "old"}'))
    keys = [f"k{number}" for number in range(20)]
    nodes = make_nodes(broker, tmp_path, f"{store}={topic}", replicas=1, cluster=f"cluster-{recreated}")
    with started(nodes):
        for node in nodes:
            node.wait_ready()
            assert node.status(f"/state/keyvalue/{store}/never") == 404
        broker.delete_topic(topic)
        if recreated:
            broker.create_topic(topic, 2, COMPACTED)
        for node in nodes:
            eventually(partial(lost, node), SECONDS, f"{node.name} says that the changelog is lost")
            answers = [node.get(f"/state/keyvalue/{store}/{key}") for key in keys]
            assert {answer.status_code for answer in answers} == {200}, "its rows stay, and answer"
            assert {answer.headers.get("storekeeper-offset-lag") for answer in answers} == {None}
            assert {node.status(f"/state/keyvalue/{store}/{key}{FRESH}") for key in keys} == {503}
            assert node.status(f"/state/keyvalue/{store}/never") == 503, "nobody knows that there is no such key"
            every = f"/state/keyvalues/{store}/all"
            assert node.status(every) == 503, "nobody knows that these are all rows"
            left = node.get(f"{every}?partial=ok")
            assert (len(left.json()), left.headers["storekeeper-complete"]) == (20, "false")
        for disk_is_new in (False, True):
            nodes[0].stop()
            if disk_is_new:
                shutil.rmtree(Path(nodes[0].environment["STOREKEEPER_RUN_DIR"]) / "state" / nodes[0].name)
            nodes[0].start()
            eventually(lambda: nodes[0].status("/livez") == 200, SECONDS, "it listens")
            eventually(partial(knows, nodes[0], recreated=recreated or not disk_is_new), SECONDS, "it knows")
            assert {nodes[0].status(f"/state/keyvalue/{store}/{key}") for key in (*keys, "never")} <= {200, 503}
        if not recreated:
            broker.create_topic(topic, 2, COMPACTED)
        write(broker, topic, [(b"k60", b'{"from": "new"}')])
        accept(nodes[0], store)
        for node in nodes:
            node.wait_ready()
            assert (node.value("k60", store), node.value("k1", store)) == ({"from": "new"}, None)


@dataclass(slots=True)
class Asker:
    """Asks one node for the same rows again and again, with one demand, until `stop`."""

    node: NodeProcess
    demand: str
    stop: threading.Event
    answers: list[tuple[float, str, str | None]] = field(default_factory=list)

    def run(self) -> None:
        number = 0
        with httpx2.Client(trust_env=False, base_url=self.node.address) as http:
            while not self.stop.is_set():
                number = (number + 1) % OLD_ROWS
                for store in PARTITIONS:
                    sent_s = time.monotonic()
                    answer = http.get(f"/state/keyvalue/{store}/k{number}{self.demand}", timeout=30)
                    value = answer.json()["value"]["from"] if answer.status_code == 200 else None
                    self.answers.append((sent_s, store, value))

    def old(self, store: str, since_s: float) -> list[float]:
        """When it asked, since a moment, for what it got from the old topic."""
        return [at_s for at_s, asked, value in self.answers if asked == store and at_s >= since_s and value == "old"]


@pytest.mark.long("test_topic_made_anew.py has the replicas, in one process")
def test_nodes_never_answer_from_the_old_topic_once_they_know_the_new_one(broker: Broker, tmp_path: Path) -> None:
    topics = {store: f"made-anew-nodes-{store}" for store in PARTITIONS}
    for topic in topics.values():
        broker.create_topic(topic, 4, COMPACTED)
        write(broker, topic, rows(OLD_ROWS, b'{"from": "old"}'))
    nodes = make_nodes(broker, tmp_path, ",".join(map("=".join, topics.items())), replicas=1)
    deleted_s, served_s = {}, {}
    with started(nodes):
        for node in nodes:
            node.wait_ready()
        with asking(nodes) as askers:
            for store, topic in topics.items():
                broker.delete_topic(topic)
                deleted_s[store] = time.monotonic()
                broker.create_topic(topic, PARTITIONS[store], COMPACTED)
                write(broker, topic, rows(NODE_ROWS, b'{"from": "new"}'))
                accept(nodes[0], store)
            for store, node in product(PARTITIONS, nodes):
                eventually(partial(serves, node, store), SECONDS, f"{node.name} serves {store}")
                served_s[store] = time.monotonic()
        for store in PARTITIONS:
            found = [nodes[0].value(f"k{number}", store) for number in range(OLD_ROWS)]
            assert found == [{"from": "new"}] * NODE_ROWS + [None] * (OLD_ROWS - NODE_ROWS)
    late_s = {ANY: served_s, FRESH: deleted_s, NO_LAG: {store: at_s + 1.0 for store, at_s in deleted_s.items()}}
    for asker, store in product(askers, PARTITIONS):
        assert asker.old(store, late_s[asker.demand][store]) == [], f"{asker.node.name} {store} {asker.demand}"


@contextmanager
def asking(nodes: list[NodeProcess]) -> Iterator[list[Asker]]:
    """Asks each node with each demand; begins once each asker has had an answer from each store."""
    stop = threading.Event()
    askers = [Asker(node, demand, stop) for node, demand in product(nodes, (ANY, FRESH, NO_LAG))]
    asked = list(product(askers, PARTITIONS))
    threads = [threading.Thread(target=asker.run) for asker in askers]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: all(asker.old(store, 0) for asker, store in asked), SECONDS, "all ask")
        yield askers
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def serves(node: NodeProcess, store: str) -> bool:
    """Whether a node answers with all rows of the new topic."""
    found = node.get(f"/state/keyvalues/{store}/all?limit=1000")
    return found.status_code == 200 and len(found.json()) == NODE_ROWS
