"""The commands that DAGs start, on a real broker, a real node and a table as the snapshot job leaves it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, write
from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.scan import Changelog
from storekeeper.cli.entry import app
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import GenerationState, Journal, JournalFile
from storekeeper.generations.steps import planned, retired
from tests.snapshot_tables import Row, manifest_of, write_snapshot

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("called_here")]

REWARDS, PRICES = POS.stores[0], TICKS.stores[0]
TOPIC = PRICES.changelog_topic
ROWS = {b"S%03d" % number: b'{"Symbol":"S%03d","Price":%d}' % (number, number) for number in range(200)}
PARTITIONS = 4


@pytest.fixture
def store(broker: Broker) -> Iterator[Broker]:
    """The broker with the changelog of `prices`."""
    with suppress(KafkaException):
        broker.delete_topic(TOPIC)  # other tests of the session leave it behind
    broker.create_topic(TOPIC, PARTITIONS, COMPACTED)
    write(broker, TOPIC, [*ROWS.items(), (b"GONE", b"{}"), (b"GONE", None)])
    yield broker
    broker.delete_topic(TOPIC)


@pytest.fixture
def node(store: Broker, tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that serves it."""
    (one,) = make_nodes(store, tmp_path / "run", f"prices={TOPIC}", names=["a"])
    one.start()
    one.wait_ready()
    yield one
    one.close()


def snapshot(broker: Broker, folder: Path, rows: dict[bytes, bytes], **claims: Any) -> None:
    """A snapshot that holds `rows`, and says that it is whole."""
    changelog = Changelog(broker.kafka, TOPIC)
    ends = {partition: changelog.stable_end(partition) for partition in changelog.partitions}
    records = {
        record.key: record for partition in ends for record in changelog.scan(partition, 0, ends[partition])
    }  # fmt: skip
    places = {key: (records[key].offset, records[key].timestamp_ms) if key in records else (0, 1000) for key in rows}
    held = [Row(partition_for(key, PARTITIONS), *places[key], key, value) for key, value in rows.items()]
    bare = manifest_of(held, store="prices", app="ticks", changelog_topic=TOPIC, changelog_offsets=ends)
    own = {"digests": dict.fromkeys(ends, 0) | dict(bare.digests), "changelog_id": changelog.facts.topic_id}
    manifest = replace(bare, **own | claims)
    write_snapshot(folder / "delta" / "prices", held, PRICES.value_fields, manifest=manifest)


def called(broker: Broker, folder: Path, *arguments: str, **settings: str) -> Result:
    environment = {"STOREKEEPER_RUN_DIR": str(folder), "STOREKEEPER_KAFKA_BOOTSTRAP": broker.bootstrap, **settings}
    return CliRunner().invoke(app, [*arguments, "--output", "json"], env=environment, catch_exceptions=False)


def run(broker: Broker, folder: Path, *arguments: str, **settings: str) -> tuple[int, dict[str, Any]]:
    done = called(broker, folder, *arguments, **settings)
    return done.exit_code, json.loads(done.stdout.splitlines()[-1])


def test_changelog_snapshot_and_node_agree_until_one_of_them_is_wrong(
    store: Broker, node: NodeProcess, tmp_path: Path
) -> None:
    run_dir = tmp_path / "run"
    peers = {"STOREKEEPER_PEERS": node.environment["STOREKEEPER_PEERS"]}
    snapshot(store, run_dir, ROWS)
    code, good = run(store, run_dir, "verify", "prices", **peers)
    assert (code, good["passed"], good["reasons"]) == (0, True, [])
    assert good["details"]["compared"] == {"node a": PARTITIONS, "snapshot 0": PARTITIONS}
    assert good["details"]["rows"] == len(ROWS)

    snapshot(store, run_dir, {**ROWS, b"GONE": b"{}", b"S001": b"{}"})
    code, bad = run(store, run_dir, "verify", "prices", **peers)
    assert (code, bad["passed"], bad["details"]["differing"]) == (4, False, 2)
    assert all(reason.startswith("snapshot 1, partition") for reason in bad["reasons"])
    assert len(list((run_dir / "quality" / "verdicts" / "verify" / "prices").iterdir())) == 2


def test_a_tampered_table_fails_the_verification_and_is_put_back(store: Broker, tmp_path: Path) -> None:
    snapshot(store, tmp_path, ROWS)
    path = tmp_path / "delta" / "prices"
    assert run(store, tmp_path, "verify", "prices")[0] == 0
    DeltaTable(path).update(updates={"Price": "Price + 1"})
    code, bad = run(store, tmp_path, "verify", "prices")
    assert (code, bad["passed"]) == (4, False)
    reason, *flaws = bad["reasons"]
    commit = f"_delta_log/{1:020}.json was added by UPDATE"
    assert reason.startswith(f"table prices isn't as it was sealed at version 0: {commit}")
    assert flaws[0].startswith("table prices, version 1: column Price isn't what the row's value says in")
    assert "`storekeeper snapshot restore prices`" in reason
    code, done = run(store, tmp_path, "snapshot", "restore", "prices")
    assert (code, done) == (0, {"store": "prices", "snapshot": 0, "restored": True, "version": 2})
    code, good = run(store, tmp_path, "verify", "prices")
    assert (code, good["details"]["table_version"], good["details"]["superseded"]) == (0, 2, 0)
    assert run(store, tmp_path, "snapshot", "restore", "prices")[1]["restored"] is False


def test_a_manifest_that_claims_what_is_not_so_is_told_at_once(store: Broker, tmp_path: Path) -> None:
    snapshot(store, tmp_path, ROWS, changelog_offsets=dict.fromkeys(range(PARTITIONS), 10**6), app="other")
    code, found = run(store, tmp_path, "verify", "prices")
    assert code == 4, "and not that the broker is away, as a reader up to that offset would say"
    table = "table prices, version 0: its manifest"
    assert f"{table} says app other, and it is ticks" in found["reasons"]
    assert any(
        reason.startswith(f"{table} reaches to offset {10**6} of {TOPIC} partition") for reason in found["reasons"]
    )
    assert any("snapshot 0, partition 0: holds the changelog up to 1000000" in reason for reason in found["reasons"])


def test_several_stores_are_verified_at_once_and_one_finding_fails_them_all(store: Broker, tmp_path: Path) -> None:
    snapshot(store, tmp_path, {**ROWS, b"S001": b"{}"})
    with suppress(KafkaException):
        store.delete_topic(REWARDS.changelog_topic)
    store.create_topic(REWARDS.changelog_topic, PARTITIONS, COMPACTED)
    code, found = run(store, tmp_path, "verify", "prices", "rewards", "prices")
    assert (code, found["subject"]) == (4, "prices,rewards")
    assert {reason.split(":")[0] for reason in found["reasons"]} == {"prices", "rewards"}
    store.delete_topic(REWARDS.changelog_topic)


def test_a_table_without_its_seal_or_its_log_fails_the_verification(store: Broker, tmp_path: Path) -> None:
    path, seal = tmp_path / "delta" / "prices", tmp_path / "seals" / "prices.json"
    write_deltalake(path, pa.table({"Price": [1]}))
    assert f"has no seal at {seal}" in run(store, tmp_path, "verify", "prices")[1]["reasons"][0]
    shutil.rmtree(path)
    snapshot(store, tmp_path, ROWS)
    seal.unlink()
    assert f"has no seal at {seal}" in run(store, tmp_path, "verify", "prices")[1]["reasons"][0]
    assert run(store, tmp_path, "snapshot", "restore", "prices")[1]["restored"] is False
    assert run(store, tmp_path, "verify", "prices")[0] == 0
    for file in (path / "_delta_log").iterdir():
        file.unlink()
    assert f"_delta_log/{0:020}.json is gone" in run(store, tmp_path, "verify", "prices")[1]["reasons"][0]
    shutil.rmtree(path)
    assert "table prices is gone" in run(store, tmp_path, "verify", "prices")[1]["reasons"][0]


def test_a_table_is_maintained_and_its_snapshot_stays(store: Broker, tmp_path: Path) -> None:
    assert run(store, tmp_path, "snapshot", "optimize", "prices") == (
        0,
        {"table": "prices", "missing": True, "forgotten_cleanups": []},
    )
    snapshot(store, tmp_path, ROWS)
    code, done = run(store, tmp_path, "snapshot", "optimize", "prices")
    assert (code, done["kept_versions"], done["version"]) == (0, [0], 0)


def handed_over(journal: Journal) -> Journal:
    """The journal with the generation that is on its way live, and the first one standing by."""
    second = replace(journal.generation(2), state=GenerationState.LIVE)
    first = replace(journal.generation(1), state=GenerationState.STANDBY)
    return replace(journal.updated(first, second), live=2)


def test_maintenance_follows_a_store_to_its_next_generation(broker: Broker, tmp_path: Path) -> None:
    file, journal = JournalFile(tmp_path, "pos"), planned(first_journal(POS), POS, ("rewards-tier",))
    old, new = REWARDS.changelog_topic, journal.generation(2).topics["rewards"]
    preview = ("cleanup", "preview", "rewards", "--ttl-days", "1e-8", "--canary-share", "0")
    for topic, rows in ((old, 5), (new, 3)):
        with suppress(KafkaException):
            broker.delete_topic(topic)
        broker.create_topic(topic, PARTITIONS, COMPACTED)
        write(broker, topic, [(b"%d" % number, b"{}") for number in range(rows)])

    plan = run(broker, tmp_path, *preview)[1]
    assert (plan["topic"], plan["rows"]) == (old, 5)

    file.write(handed_over(journal))
    verdict = run(broker, tmp_path, "verify", "rewards")[1]
    assert (verdict["passed"], verdict["details"]["topic"]) == (False, new)
    refused = called(broker, tmp_path, *preview)
    assert (refused.exit_code, refused.stdout) == (78, "")
    assert "generation 1 of pos is STANDBY and holds the rows" in refused.stderr

    file.write(retired(handed_over(journal), 1))
    refused = called(broker, tmp_path, "cleanup", "run", "rewards", plan["cleanup_id"])
    assert refused.exit_code == 5
    assert f"is now in {new}" in refused.stderr
    plan = run(broker, tmp_path, *preview)[1]
    assert (plan["topic"], plan["rows"]) == (new, 3)
    assert run(broker, tmp_path, "cleanup", "run", "rewards", plan["cleanup_id"])[1]["deleted"] == 3
    for topic in (old, new):
        broker.delete_topic(topic)
