"""A changelog with every kind of record that is not a row: what a node, the checks and the commands make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from typer.testing import CliRunner

from harness.broker import Broker
from harness.changelog_records import read_changelog
from harness.node_process import NodeProcess, make_nodes, started, write
from harness.topics import end_offsets
from harness.waiting import eventually
from storekeeper.apps.registry import store_named
from storekeeper.changelog.scan import Changelog
from storekeeper.cli.entry import app
from storekeeper.stores.row_digest import to_hex
from storekeeper.verification.copies import Fold, of_stored_row
from tests.changelog.bad_records import KINDS, ROWS, SKIPPED, write_kinds
from tests.faults.test_restore import everything

pytestmark = pytest.mark.broker

TOPIC = store_named("prices").changelog_topic
# A broker refuses some kinds unless it is told not to: records without a key, and timestamps of a far future.
ALL_KINDS = {"cleanup.policy": "delete", "message.timestamp.after.max.ms": str(2**63 - 1)}
BEFORE = {b"before-%d" % number: b'{"n":%d}' % number for number in range(50)}
AFTER = {b"after-%d" % number: b'{"n":%d}' % number for number in range(50)}


@pytest.fixture
def changelog(broker: Broker) -> Iterator[Broker]:
    """The broker with a changelog of good rows."""
    with suppress(KafkaException):
        broker.delete_topic(TOPIC)  # other tests of the session leave it behind
    broker.create_topic(TOPIC, 2, ALL_KINDS)
    write(broker, TOPIC, list(BEFORE.items()))
    yield broker
    broker.delete_topic(TOPIC)


def write_all_kinds(broker: Broker) -> None:
    """Every kind, each behind a good row of its key, and good rows behind them all."""
    write(broker, TOPIC, [(kind.key, b"older") for kind in KINDS if kind.key is not None])
    write_kinds(broker.bootstrap, TOPIC, KINDS)
    write(broker, TOPIC, list(AFTER.items()))


def check(node: NodeProcess) -> None:
    """A node serves all rows and none besides, is ready, and says what it skipped."""
    wanted = {(key or b"").decode() for key in (*BEFORE, *AFTER, *ROWS)}
    assert everything(node).keys() == wanted
    ready = node.get("/readyz?verbose")
    assert ready.status_code == 200
    assert f"{len(SKIPPED)} changelog records are skipped in 2 replicas" in ready.json()["reason"]
    replicas = node.replicas().values()
    assert sum(replica["skipped_records"] for replica in replicas) == len(SKIPPED)
    reasons = {reason for replica in replicas for reason in replica["skipped_reasons"]}
    assert reasons == {kind.reason for kind in SKIPPED}
    metrics = node.get("/metrics").text
    for replica in replicas:
        labels = f'{{partition="{replica["partition"]}",store="rewards"}}'
        assert f"state_skipped_records_total{labels} {replica['skipped_records']}.0" in metrics
        assert f"state_last_skipped_offset{labels} {float(replica['last_skipped_offset'])}" in metrics


def digests(node: NodeProcess) -> list[tuple[int, str]]:
    """Rows and digest of each partition."""
    found = [node.get(f"/state/digest/rewards/{partition}").json() for partition in range(2)]
    return [(told["rows"], told["digest"]) for told in found]


def run(*arguments: str, **environment: str) -> list[dict[str, Any]]:
    """The JSON lines of a command."""
    done = CliRunner().invoke(app, [*arguments, "--output", "json"], env=environment)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_kind_of_record_stops_a_partition_or_makes_copies_differ(changelog: Broker, tmp_path: Path) -> None:
    (node,) = make_nodes(changelog, tmp_path / "warm", f"rewards={TOPIC}:ranked:n", names="a")
    (cold,) = make_nodes(
        changelog,
        tmp_path / "cold",
        f"rewards={TOPIC}:ranked:n",
        names="b",
        constants={"storekeeper.node.replicas.cold_restore:ColdRestoreSettings.threshold_records": 1},
    )
    with started([node]):
        node.wait_ready()
        write_all_kinds(changelog)
        ends = end_offsets(changelog.bootstrap, TOPIC)[TOPIC]
        eventually(
            lambda: {str(number): replica["offset"] for number, replica in node.replicas().items()} == ends,
            60,
            "the node follows to the end",
        )
        check(node)
        assert node.events("changelog_records_skipped")
        assert "older" not in node.log_path.read_text()

        assert node.stop() == 0
        node.start()
        node.wait_ready()
        assert sum(replica["restored_records"] for replica in node.replicas().values()) == 0
        check(node)

        with started([cold]):
            cold.wait_ready()
            assert cold.events("cold_restore_worker_ended")
            check(cold)
            assert digests(cold) == digests(node)

        log = Changelog(changelog.kafka, TOPIC)
        folds = [Fold(of_stored_row), Fold(of_stored_row)]
        for partition in log.partitions:
            folds[partition].take(log.scan(partition, *log.committed(partition)))
        assert [(fold.rows, to_hex(fold.digest(of_stored_row))) for fold in folds] == digests(node)
        compared: dict[bytes, bytes] = {}
        for key, value in read_changelog(changelog.kafka, TOPIC):
            compared.pop(key, None)
            if value is not None:
                compared[key] = value
        assert compared == BEFORE | AFTER | ROWS

        (lag, other) = run("stores", "--replicas", "--node", node.address)
        assert lag["skipped_records"] + other["skipped_records"] == len(SKIPPED)
    listed = run(
        "skipped", "prices", STOREKEEPER_KAFKA_BOOTSTRAP=changelog.bootstrap, STOREKEEPER_RUN_DIR=str(tmp_path)
    )
    assert sorted(found["reason"] for found in listed) == sorted(kind.reason for kind in SKIPPED if kind.reason)
    assert {found["topic"] for found in listed} == {TOPIC}
    assert {found["timestamp_ms"] for found in listed} == {kind.timestamp_ms for kind in SKIPPED}
    for number, replica in ((number, lag if lag["partition"] == number else other) for number in range(2)):
        offsets = [found["offset"] for found in listed if found["partition"] == number]
        assert (len(offsets), max(offsets)) == (replica["skipped_records"], replica["last_skipped_offset"])
