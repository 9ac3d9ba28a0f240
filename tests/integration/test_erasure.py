"""A key is erased from a real changelog, its tables, a node, a task's store and an archive; others keep theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner

from harness.broker import Broker
from harness.node_process import NodeProcess, make_nodes
from harness.waiting import eventually
from spark_apps.ticks import TICKS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.bounded_reader import partitions_of, read_range, stable_bounds
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.cli.entry import app
from storekeeper.engine.runtime.topics import Topics
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.erasure.search import Searched
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.store_definitions import ServedKind
from tests.cleanup.plans import PLAN
from tests.snapshots.played_app import App

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("called_here")]

PRICES = TICKS.stores[0]
TOPIC, DEAD = PRICES.changelog_topic, "ticks-dlq"
PARTITIONS = 4
ALICE, BOB = "alice-4836051607", "bob-4836051608"
OTHERS = {BOB: "bun", **{f"other-{number:03}": "rye" for number in range(50)}}
QUICKLY = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0", "delete.retention.ms": "8000"}


def encode(word: str) -> bytes:
    return json.dumps({"Symbol": word, "Price": 7}).encode()


@pytest.fixture
def ticks(broker: Broker, tmp_path: Path) -> Iterator[App]:
    """The app of `prices`, which a test plays; two tables of it are there, with several versions."""
    for topic in (TOPIC, DEAD):
        with suppress(KafkaException):
            broker.delete_topic(topic)  # other tests of the session leave it behind
    broker.create_topic(TOPIC, PARTITIONS, QUICKLY)
    broker.create_topic(DEAD, 1, {"cleanup.policy": "delete"})
    played = App(broker, AppSettings(run_dir=tmp_path / "run", kafka_bootstrap=broker.bootstrap), PRICES, encode)
    for number, changes in enumerate(({ALICE: "ale", **OTHERS}, {ALICE: "apple"}, {BOB: "bread"})):
        played.write(number, changes)
        played.commit(number)
        assert called(broker, tmp_path / "run", "snapshot", "create", "prices")[0] == 0
    yield played
    for topic in (TOPIC, DEAD):
        broker.delete_topic(topic)


@pytest.fixture
def node(broker: Broker, ticks: App, tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that serves it."""
    del ticks
    (one,) = make_nodes(broker, tmp_path / "run", f"prices={TOPIC}", names=["a"])
    one.start()
    one.wait_ready()
    yield one
    one.close()


def called(broker: Broker, run_dir: Path, *words: str, **settings: str) -> tuple[int, dict[str, Any], str]:
    environment = {"STOREKEEPER_RUN_DIR": str(run_dir), "STOREKEEPER_KAFKA_BOOTSTRAP": broker.bootstrap, **settings}
    done = CliRunner().invoke(app, [*words, "--output", "json"], env=environment, catch_exceptions=False)
    lines = done.stdout.splitlines()
    return done.exit_code, json.loads(lines[-1]) if lines and done.exit_code in {0, 4} else {}, done.stderr


def everything_with(key: str, run_dir: Path, broker: Broker) -> list[str]:
    """Every file below the run directory, and every topic, with the bytes of a key: plain, or as decompressed."""
    keys, searched = ErasedKeys(ServedKind.KEY_VALUE, (key.encode(),)), Searched()
    searched.read_files(run_dir, keys)
    found = [one["file"].removeprefix(f"{run_dir}/") for one in searched.found]
    for current in run_dir.rglob("CURRENT"):
        opener = open_sealed if "tasks" in current.parts else open_rocksdb
        store = opener(current.parent, current.parent.name)
        found += [str(current) for row_key, value in store.scan(None, None) if keys.in_any((row_key, value))]
        store.close()
    for topic in (TOPIC, DEAD):
        for partition in partitions_of(broker.kafka, topic):
            first, end = stable_bounds(broker.kafka, topic, partition)
            for one in read_range(broker.kafka, topic, partition, first, end, isolation="read_uncommitted"):
                if keys.in_any((one.key(), one.value(), *(value for _, value in one.headers() or ()))):
                    found.append(topic)
    return sorted(found)


def local_store(run_dir: Path) -> Path:
    """A task's store that has the row."""
    folder = run_dir / "tasks" / "ticks" / "gen-1" / "slot" / str(partition_for(ALICE.encode(), PARTITIONS)) / "prices"
    store = open_sealed(folder, "prices")
    store.write([(ALICE.encode(), encode("apple"))])
    store.close()
    return folder


def archived(run_dir: Path, broker: Broker) -> CleanupFolder:
    """A clean-up that can't be undone any more, with the row in its archive."""
    folder = CleanupFolder(run_dir / "cleanups" / "prices", "prices")
    folder.put_plan(PLAN)
    archive, partition = folder.archive(PLAN), partition_for(ALICE.encode(), PARTITIONS)
    archive.begin(0)
    changelog = Changelog(broker.kafka, TOPIC)
    records = changelog.scan(partition, *changelog.committed(partition))
    archive.put(0, [record for record in records if record.key == ALICE.encode()])
    return folder


def test_after_an_erasure_nothing_has_the_keys_bytes_but_what_the_certificate_lists(
    ticks: App, node: NodeProcess, tmp_path: Path
) -> None:
    broker, run_dir = ticks.broker, tmp_path / "run"
    config = Topics(broker.kafka).own_config(TOPIC)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(DEAD, f"a bad record about {ALICE}", b"k")
    assert producer.flush(30) == 0
    folder, cleanups = local_store(run_dir), archived(run_dir, broker)
    peers = {"STOREKEEPER_PEERS": node.environment["STOREKEEPER_PEERS"]}
    assert node.value(ALICE, "prices") is not None
    before = everything_with_tables(ALICE, run_dir)
    assert {path.partition("/")[0] for path in before} >= {"prices", "prices_history"}

    code, plan, _ = called(broker, run_dir, "erase", "prices", ALICE, **peers)
    assert code == 0
    assert ALICE not in json.dumps(plan)
    assert sum(plan["records"].values()) == 2
    assert plan["hashes"] != [ALICE]
    said: list[str] = []

    def erased() -> dict[str, Any] | None:
        found, answer, error = called(
            broker, run_dir, "erase", "prices", "--run", plan["erasure_id"], "--wait", "5", **peers
        )
        said.append(error)
        assert found in {0, 75}, error
        assert len(said) < 60, said[-1]
        return answer if found == 0 else None

    certificate = eventually(erased, 240, "the erasure is complete")
    assert not folder.exists()
    assert cleanups.archive(PLAN).exists(0) is False
    assert node.value(ALICE, "prices") is None
    assert node.value(BOB, "prices")["Symbol"] == "bread"
    assert Topics(broker.kafka).own_config(TOPIC) == config, "it is as it was before"
    assert certificate["nodes"] == {"a": [partition_for(ALICE.encode(), PARTITIONS)]}
    assert certificate["found_elsewhere"] == [{"topic": DEAD, "partition": 0, "records": 1, "offsets": [0]}]
    node.close()
    assert everything_with(ALICE, run_dir, broker) == [DEAD]

    code, verdict, _ = called(broker, run_dir, "verify", "prices")
    assert (code, verdict["reasons"]) == (0, [])
    code, rows, _ = called(broker, run_dir, "sql", "SELECT count(*) AS n FROM prices")
    assert rows["n"] == len(OTHERS)
    again = called(broker, run_dir, "erase", "prices", "--run", plan["erasure_id"], **peers)
    assert (again[0], again[1]) == (0, certificate)


def everything_with_tables(key: str, run_dir: Path) -> list[str]:
    keys, searched = ErasedKeys(ServedKind.KEY_VALUE, (key.encode(),)), Searched()
    searched.read_files(run_dir / "delta", keys)
    return [one["file"].removeprefix(f"{run_dir}/delta/") for one in searched.found]


def test_keys_come_from_a_condition_or_a_file(ticks: App, tmp_path: Path) -> None:
    run_dir, listed = tmp_path / "run", tmp_path / "keys.txt"
    listed.write_text(f"{BOB}\nother-001\n")
    for words, count in (
        (("--where", "Symbol = 'rye'"), len(OTHERS) - 1),
        (("--keys-file", str(listed)), 2),
        ((ALICE, ALICE, BOB), 2),
    ):
        code, plan, error = called(ticks.broker, run_dir, "erase", "prices", *words)
        assert (code, len(plan.get("hashes", ()))) == (0, count), error
    code, shown, _ = called(ticks.broker, run_dir, "erase", "prices", "--run", plan["erasure_id"], "--dry-run")
    assert (code, shown["text"]) == (0, plan["text"])
    assert called(ticks.broker, run_dir, "erase", "prices", "--where", "nonsense(")[0] == 2
    assert called(ticks.broker, run_dir, "erase", "prices")[0] == 2
    assert called(ticks.broker, run_dir, "erase", "prices", BOB, "--run", plan["erasure_id"])[0] == 2
