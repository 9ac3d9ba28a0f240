"""A thousand secrets go through the whole pipeline, and none is in any byte that it leaves behind.

What carries them by design is left out: the input topic and its dead letters, and `shipment`, which is the invoice for
those who deliver. The loyalty part knows customers by their card number, and its notifications name the invoice:
canaries that were put into these two fields may be there, and nowhere else.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from harness.app_process import AppProcesses
from harness.broker import Broker, start_broker
from harness.node_process import NodeProcess, make_nodes
from harness.topics import end_offsets, read_topic, write_topic
from tests.integration.canaries import (
    CANARIES,
    KINDS,
    PERMITTED,
    SPELLINGS,
    Canary,
    canaries,
    contents,
    described,
    sightings,
)

CHANGELOG = "pos-rewards-changelog"
TOPICS = ("pos", "shipment", "loyalty", "hadoop-sink", "pos-dlq", "hadoop_export-dlq")
LOYALTY_TOPICS = {"loyalty", CHANGELOG}
LOYALTY_FOLDERS = {"delta/rewards", "state", "tasks/pos", "spark/pos"}
CARRIERS = {"pos", "pos-dlq", "shipment"}


@dataclass(frozen=True)
class Pipeline:
    """The platform's processes after they have had all canaries; the verdict of the gate."""

    broker: Broker
    apps: AppProcesses
    node: NodeProcess
    planted: list[Canary]
    verdict: dict[str, object]

    def allowed(self, *, loyalty: bool = False, notifications: bool = False) -> set[bytes]:
        """What may be seen where customers are known by card, and where invoices are named."""
        reasons = ({"loyalty"} if loyalty else set()) | ({"notifications"} if notifications else set())
        places = {place for place, why in PERMITTED.items() if why & reasons}
        return {
            seen
            for canary in self.planted
            if canary.place in places
            for seen in sightings(KINDS[canary.kind](canary.number).encode(), 0)
        }


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    folder = tmp_path_factory.mktemp("birds")  # paths are written everywhere: none may look like a canary
    broker = start_broker(folder / "broker")
    apps = AppProcesses(
        folder / "run",
        broker.bootstrap,
        {"trigger_interval_ms": "50"},
        constants={"storekeeper.engine.table_sink.stream:TRIGGER_INTERVAL_MS": 50},
    )
    (node,) = make_nodes(broker, folder / "run", f"rewards={CHANGELOG}", ["a"])
    try:
        for topic in TOPICS:
            broker.create_topic(topic)
        broker.create_topic(CHANGELOG, config={"cleanup.policy": "compact"})
        planted = canaries()
        write_topic(broker.bootstrap, "pos", (canary.record() for canary in planted))
        node.start()
        run_through(apps)
        node.wait_ready()
        assert apps.run("snapshot", "create", "rewards").returncode == 0
        yield Pipeline(broker, apps, node, planted, check_export(apps))
    finally:
        apps.stop()
        node.close()
        broker.stop()


def run_through(apps: AppProcesses) -> None:
    pos = apps.start("pos")
    pos.await_caught_up(end_offsets(apps.bootstrap, "pos"))
    assert pos.terminate() == 0, pos.log_tail()
    export = apps.start("hadoop_export")
    export.await_caught_up(end_offsets(apps.bootstrap, "hadoop-sink"))
    assert export.terminate() == 0, export.log_tail()


def check_export(apps: AppProcesses) -> dict[str, object]:
    done = apps.run("check", "hadoop_export", "--output", "json")
    assert done.stdout, done.stderr
    (apps.run_dir / "quality.log").write_text(done.stdout + done.stderr)
    verdict: dict[str, object] = orjson.loads(done.stdout.splitlines()[-1])
    return verdict


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.long("records/test_leaks.py and quality/test_every_leak.py have the places and spellings")
@pytest.mark.timeout(1200)  # four Spark sessions one after the other
class TestPipeline:
    def test_all_canaries_went_in_and_lines_came_out(self, pipeline: Pipeline) -> None:
        assert len(pipeline.planted) == CANARIES
        seen = set().union(*(sightings(record.value or b"") for record in read_topic(pipeline.apps.bootstrap, "pos")))
        assert len(seen) == CANARIES
        poison = [canary for canary in pipeline.planted if canary.place.startswith("poison")]
        assert len(read_topic(pipeline.apps.bootstrap, "pos-dlq")) == len(poison)
        rows = DeltaTable(pipeline.apps.run_dir / "delta" / "hadoop_export").count()
        assert rows == 2 * (CANARIES - len(poison))

    def test_the_gate_finds_nothing_left_to_hold_back(self, pipeline: Pipeline) -> None:
        assert (pipeline.verdict["status"], pipeline.verdict["reasons"]) == ("published", [])
        assert Path(str(pipeline.verdict["data_docs"])).is_file()

    def test_no_topic_shows_one(self, pipeline: Pipeline) -> None:
        topics = set(pipeline.broker.admin().list_topics(timeout=30).topics) - CARRIERS
        assert set(TOPICS) - CARRIERS <= topics
        for topic in topics:
            allowed = pipeline.allowed(loyalty=topic in LOYALTY_TOPICS, notifications=topic == "loyalty")
            for record in read_topic(pipeline.apps.bootstrap, topic):
                parts = [record.key or b"", record.value or b"", repr(record.headers).encode()]
                found = set().union(*map(sightings, parts)) - allowed
                assert not found, (topic, record, described(found))

    def test_dead_letters_tell_the_reason_without_one(self, pipeline: Pipeline) -> None:
        for record in read_topic(pipeline.apps.bootstrap, "pos-dlq"):
            assert not sightings(repr(record.headers).encode()), record.headers

    def test_no_file_holds_one(self, pipeline: Pipeline) -> None:
        root = pipeline.apps.run_dir
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        files = [path for path in files if path.suffix != ".gif"]  # pictures that Great Expectations brings along
        folders = {path.relative_to(root).parts[0] for path in files}
        assert {"delta", "quality", "heartbeats", "checkpoints", "tasks"} <= folders
        assert any(path.suffix == ".log" for path in files)
        for path in files:
            inside = path.relative_to(root).as_posix()
            loyalty = any(inside.startswith(folder) for folder in LOYALTY_FOLDERS)
            allowed = pipeline.allowed(loyalty=loyalty)
            for content in contents(path):
                found = sightings(content) - allowed
                assert not found, (inside, described(found))

    def test_the_node_tells_none_but_cards(self, pipeline: Pipeline) -> None:
        paths = (
            "/metrics",
            "/state/stores",
            "/state/lag",
            "/state/topology",
            "/healthz",
            "/state/cluster",
            "/page/",
            "/",
        )
        for path in paths:
            answer = pipeline.node.get(path)
            assert not sightings(answer.content + str(answer.headers).encode()), path
        rows = pipeline.node.get("/state/keyvalues/rewards/all?limit=1000")
        assert rows.status_code == httpx2.codes.OK
        assert sightings(rows.content) - pipeline.allowed(loyalty=True) == set()


SECRETS = [kind(77) for kind in KINDS.values()]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_search_would_find_one(secret: str, spelling: str, tmp_path: Path) -> None:
    text = SPELLINGS[spelling](secret)
    assert sightings(b'{"minValues":{"City":"' + text.encode() + b'"}}')
    assert sightings(base64.b64encode(b"x" + text.encode()))
    pq.write_table(pa.table({"City": ["Pune", text]}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    assert any(map(sightings, contents(tmp_path / "a.parquet")))
    (tmp_path / "b.gz").write_bytes(gzip.compress(text.encode()))
    assert any(map(sightings, contents(tmp_path / "b.gz")))


def test_the_search_finds_nothing_in_ordinary_text() -> None:
    assert not sightings(b'{"City":"Pune","updated_at_ms":1700000000000,"digest":"9f86d081884c7d65"}')
