"""Restores that are interrupted, and stores that are damaged: what comes back equals the fold of the changelog."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, write
from harness.waiting import eventually
from storekeeper.changelog.scan import Changelog as LogOf
from tests.snapshot_tables import Row, write_snapshot

pytestmark = pytest.mark.broker

KEYS = 5_000


class Changelog:
    """A changelog with an oracle beside it: what the fold of all that was written must be."""

    def __init__(self, broker: Broker, topic: str, seed: int = 7) -> None:
        self.topic = topic
        self.rows: dict[str, Any] = {}
        self._broker = broker
        self._random = random.Random(seed)
        self._written = 0

    def append(self, records: int) -> None:
        """Appends random updates and some deletions."""
        entries: list[tuple[bytes, bytes | None]] = []
        for _ in range(records):
            key = f"{self._random.randrange(KEYS):06d}"
            self._written += 1
            if self._random.random() < 0.1:
                self.rows.pop(key, None)
                entries.append((key.encode(), None))
            else:
                self.rows[key] = {"n": self._written}
                entries.append((key.encode(), json.dumps(self.rows[key]).encode()))
        write(self._broker, self.topic, entries)


def everything(node: NodeProcess) -> dict[str, Any]:
    """All rows that a node serves."""
    found: dict[str, Any] = {}
    cursor = ""
    while True:
        answer = node.get(f"/state/keyvalues/rewards/all?limit=1000{cursor}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["storekeeper-complete"] == "true"
        found |= {row["key"]: row["value"] for row in answer.json()}
        if "storekeeper-next-cursor" not in answer.headers:
            return found
        cursor = f"&cursor={answer.headers['storekeeper-next-cursor']}"


def progress(node: NodeProcess) -> tuple[int, int] | None:
    """(next offset, end offset) summed over all replicas; None until all of them are known."""
    if node.status("/livez") is None:
        return None
    replicas = node.replicas().values()
    if len(replicas) < 4 or any(replica["offset"] is None for replica in replicas):
        return None
    return sum(replica["offset"] for replica in replicas), sum(replica["end_offset"] for replica in replicas)


@pytest.fixture
def changelog(broker: Broker, request: pytest.FixtureRequest) -> Changelog:
    topic = re.sub("[^A-Za-z0-9.-]", "-", f"faults-{request.node.name}")
    broker.create_topic(topic, config=COMPACTED)
    return Changelog(broker, topic)


MakeNode = Callable[..., NodeProcess]


@pytest.fixture
def make_node(broker: Broker, changelog: Changelog, tmp_path: Path) -> Iterator[MakeNode]:
    """Makes the one node of a cluster of one, killed at the end of the test whatever happened."""
    made: list[NodeProcess] = []

    def make(run_dir: Path = tmp_path / "run", **settings: object) -> NodeProcess:
        made.extend(make_nodes(broker, run_dir, f"rewards={changelog.topic}", names="a", **settings))
        return made[-1]

    yield make
    for node in made:
        node.close()


@pytest.mark.timeout(3600)
def test_kills_during_restores_lose_and_invent_nothing(
    changelog: Changelog, make_node: MakeNode, request: pytest.FixtureRequest
) -> None:
    node = make_node()
    kills = 100 if request.config.getoption("--long") else 2
    changelog.append(150_000)
    hits, reached = 0, 0
    for _ in range(kills):
        changelog.append(30_000)
        node.start()
        offset, end = eventually(lambda: progress(node), 60, "replicas are open")
        assert offset >= reached, "a position went back"
        node.kill()
        reached = offset
        hits += offset < end
    assert hits >= kills // 2, "too few kills met a restore"

    node.start()
    node.wait_ready()
    assert everything(node) == changelog.rows
    assert not node.events("replica_wiped")


def test_a_killed_node_takes_its_restore_workers_along(changelog: Changelog, make_node: MakeNode) -> None:
    changelog.append(150_000)
    node = make_node(constants={"storekeeper.node.replicas.cold_restore:ColdRestoreSettings.threshold_records": 1000})
    node.start()
    workers = eventually(lambda: psutil.Process(node.pid).children(), 60, "workers restore")
    node.kill()
    assert psutil.wait_procs(workers, timeout=20)[1] == [], "no worker outlives its node"

    node.start()
    node.wait_ready()
    assert everything(node) == changelog.rows


@pytest.mark.long("test_cold_restore.py has workers that end without a result")
def test_a_killed_worker_is_made_up_for(changelog: Changelog, make_node: MakeNode) -> None:
    changelog.append(150_000)
    node = make_node(constants={"storekeeper.node.replicas.cold_restore:ColdRestoreSettings.threshold_records": 1000})
    node.start()
    for worker in eventually(lambda: psutil.Process(node.pid).children(), 60, "workers restore"):
        worker.kill()
    node.wait_ready()
    assert everything(node) == changelog.rows
    assert node.stop() == 0


@pytest.mark.parametrize("wrong", ["", "changed", "of another topic"])
def test_a_node_begins_with_the_sealed_table_or_with_the_changelog(
    changelog: Changelog, broker: Broker, make_node: MakeNode, tmp_path: Path, wrong: str
) -> None:
    changelog.append(40_000)
    log = LogOf(broker.kafka, changelog.topic)
    rows, ends = [], {}
    for partition in log.partitions:
        first, ends[partition] = log.committed(partition)
        newest = {record.key: record for record in log.scan(partition, first, ends[partition])}
        rows += [
            Row(partition, record.offset, record.timestamp_ms, record.key, record.value)
            for record in newest.values()
            if record.key is not None and record.value is not None
        ]
    table = tmp_path / "run" / "delta" / "rewards"
    write_snapshot(
        table,
        rows,
        store="rewards",
        changelog_topic=changelog.topic,
        changelog_id="another" if wrong == "of another topic" else log.facts.topic_id,
        changelog_offsets=ends,
        one_version=True,
        batch_ms=int(time.time() * 1000),
    )
    if wrong == "changed":
        _damage(table, "*.parquet:flipped")
    changelog.append(4_000)  # deletions are among them
    node = make_node(constants={"storekeeper.node.replicas.cold_restore:ColdRestoreSettings.threshold_records": 1000})
    node.start()
    node.wait_ready()
    assert everything(node) == changelog.rows
    said = node.log_path.read_text()
    assert said.count("store_seeded") == (0 if wrong else len(log.partitions)), said[-2000:]
    assert ("store_not_seeded" in said) == bool(wrong)


def _damage(folder: Path, kind: str) -> None:
    """Damages the newest file of a kind, as a disk or a careless hand would."""
    name, how = kind.split(":")
    path = max(folder.glob(name), key=lambda entry: entry.stat().st_mtime_ns)
    if how == "deleted":
        path.unlink()
    elif how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x10
        path.write_bytes(data)


@pytest.mark.parametrize(
    "kinds",
    [("CURRENT:deleted", "MANIFEST-*:cut", "DURABLE:flipped", "*.log:deleted"), ("*.sst:flipped", "*.sst:deleted")],
    ids=["logged", "in table files"],
)
def test_damaged_stores_are_rebuilt_and_never_answer_wrongly(
    changelog: Changelog, make_node: MakeNode, tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    """Each partition is a store of its own, and each of them is damaged in another way."""
    changelog.append(20_000)
    node = make_node(memory_mib=16)
    for _ in range(2 if "sst" in kinds[0] else 1):  # opening brings what is in the log into table files
        node.start()
        node.wait_ready()
        assert node.stop() == 0
    for partition, kind in enumerate(kinds):
        _damage(tmp_path / "run" / "state" / "a" / "rewards" / str(partition), kind)

    node.start()
    node.wait_ready()
    eventually(lambda: _answers(node, changelog.rows), 60, "all rows are right again")


def _answers(node: NodeProcess, rows: dict[str, Any]) -> bool:
    """Whether every row is served; a refusal counts as not yet, a wrong answer fails at once."""
    for key in (f"{number:06d}" for number in range(0, KEYS, 7)):
        answer = node.get(f"/state/keyvalue/rewards/{key}")
        if answer.status_code == 503:
            return False
        value = answer.json()["value"] if answer.status_code == 200 else None
        assert value == rows.get(key)
    return node.is_ready()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB; skipped where mounting isn't allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_survived_without_a_rebuild(changelog: Changelog, make_node: MakeNode, small_disk: Path) -> None:
    changelog.append(5_000)
    before = dict(changelog.rows)
    node = make_node(small_disk / "run", memory_mib=16)
    node.log_path = small_disk.parent / "node.log"
    node.start()
    node.wait_ready()
    filler = small_disk / "filler"
    _fill(filler)
    for _ in range(20):
        changelog.append(5_000)
    eventually(
        lambda: any(replica["state"] == "SUSPENDED" for replica in node.replicas().values()), 60, "the disk is full"
    )
    key = next(key for key in before if key in changelog.rows)
    assert node.status(f"/state/keyvalue/rewards/{key}") == 200, "reads go on"
    assert node.status("/livez") == 200

    filler.unlink()
    eventually(
        lambda: all(replica["offset_lag"] == 0 and replica["serving"] for replica in node.replicas().values()),
        60,
        "it goes on once there is space",
    )
    assert everything(node) == changelog.rows
    assert not node.events("replica_wiped")
    assert not list((small_disk / "run" / "state" / "a" / "rewards").glob("*.corrupt-*"))


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 65_536)
        except OSError:
            return


@pytest.mark.long("storekeeper/changelog/test_restore.py has logs with gaps")
def test_a_compacted_log_gives_the_same_rows(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    topic = "faults-compacted"
    settings = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    broker.create_topic(topic, config=settings)
    changelog = Changelog(broker, topic)
    changelog.append(100_000)
    log_folder = broker.folder / "log" / f"{topic}-0"

    def compacted() -> bool:
        changelog.append(1)  # a segment is rolled, and then compacted, only when something follows it
        return sum(file.stat().st_size for file in log_folder.glob("*.log")) < size / 2

    size = sum(file.stat().st_size for file in log_folder.glob("*.log"))
    eventually(compacted, 300, "the log is compacted")
    (node,) = make_nodes(broker, tmp_path / "run", f"rewards={topic}", names="a")
    request.addfinalizer(node.close)
    node.start()
    node.wait_ready()
    assert everything(node) == changelog.rows
    replicas = node.replicas().values()
    assert all(replica["offset"] == replica["end_offset"] for replica in replicas)
    assert sum(replica["restored_records"] for replica in replicas) < 80_000, "it was read with gaps"
