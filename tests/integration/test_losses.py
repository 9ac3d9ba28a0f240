"""An operator's worst hours, on a platform with a join and aggregates of 10,000 keys, against an oracle.

After each loss: what is said first is true, nothing that was a last copy is deleted, and what can answer answers. After
the recovery of back-up-and-recover.md there is no difference to the oracle, or what is missing is known.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable, write_deltalake

from harness.broker import start_broker
from storekeeper.errors import StateError
from storekeeper.ops.broker import prepare_broker
from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.waiting import eventually
from storekeeper.program import ExitCode
from tests.integration.platform_process import supervisor_of
from tests.integration.shop import (
    APP,
    FIRST,
    LATER,
    SECONDS,
    SPENT_CHANGELOG,
    Shop,
    shop_in,
)
from tests.integration.small_disk import fill, small_disk
from tests.integration.spending_app import ORDERS

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(2400)),
    pytest.mark.long("test_lost_topics.py, test_bring_up.py and the tests of nodes have it without processes"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with shop_in(tmp_path) as made:
        yield made


def test_kafka_has_another_volume_or_an_older_one(shop: Shop, tmp_path: Path) -> None:
    kafka, older, away = shop.layout.kafka, tmp_path / "older", tmp_path / "away"
    shop.down()
    shutil.copytree(kafka, older)
    shop.up()
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)
    shop.down()

    kafka.rename(away)
    kafka.mkdir()
    prefix, environment = "STOREKEEPER_", shop.process.environment
    own = {name.removeprefix(prefix).lower(): found for name, found in environment.items() if name.startswith(prefix)}
    prepare_broker(shop.layout, PlatformSettings.load(**own), environment)
    said = next(line for line in shop.up(code=1).splitlines() if line.startswith("storekeeper: "))
    assert said.startswith("storekeeper: Kafka's data is lost: ")
    assert "has none of the topics" in said
    assert SPENT_CHANGELOG in said

    shutil.rmtree(kafka)
    shutil.copytree(older, kafka)
    said = shop.trouble()
    assert f"{ORDERS} (ends before what was read of it: older data)" in said
    assert [shop.status_of(node) for node in shop.nodes] == ["lost", "lost"]
    assert shop.tells_nothing_wrong(FIRST + LATER), "nodes keep the rows that Kafka lacks"
    assert shop.code_of("spent", "nobody") == 503

    shop.down()
    shutil.rmtree(kafka)
    away.rename(kafka)
    shop.up()
    assert shop.equals(FIRST + LATER), "it was put back"

    shop.down()
    shutil.rmtree(kafka)
    older.rename(kafka)
    shop.configure(2)
    shop.up("--accept-loss")
    assert shop.equals(FIRST), "all but the later orders, which no topic has"
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)


def test_a_changelog_is_deleted(shop: Shop) -> None:
    shop.delete_topic(SPENT_CHANGELOG)
    for node in shop.nodes:
        assert eventually(lambda node=node: shop.status_of(node) == "lost", SECONDS)  # type: ignore[misc]
    assert shop.differences(FIRST, partial=True) == [], "nodes answer from the rows that they have"
    with pytest.raises(StateError):
        shop.differences(FIRST, "spent")
    assert shop.code_of("spent", "nobody") == 503
    assert f"{SPENT_CHANGELOG} (deleted)" in shop.trouble()
    assert SPENT_CHANGELOG not in shop.topics(), "nothing was made anew"
    shop.down()
    assert f"{SPENT_CHANGELOG} (deleted)" in shop.trouble()
    assert shop.tells_nothing_wrong(FIRST)
    shop.down()
    shop.configure(2)
    assert f"{SPENT_CHANGELOG}-g2" in shop.output("create-topics", "--dry-run")
    shop.up()
    assert shop.equals(FIRST), "computed again from the input"
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)


def test_a_partition_of_a_changelog_is_removed_from_the_brokers_disk(shop: Shop) -> None:
    (log,) = shop.layout.kafka.glob(f"data/{SPENT_CHANGELOG}-0")
    shop.down()
    shutil.rmtree(log)
    shutil.rmtree(shop.run_dir / "tasks")
    said = shop.trouble()
    assert f"{SPENT_CHANGELOG} ends at 0 in partition 0" in said, "although there is no input to count"
    assert [shop.status_of(node) for node in shop.nodes] == ["lost", "lost"]
    assert {*shop.answers(FIRST)} == {"right", "503"}, "the other partitions answer"
    shop.down()
    shutil.rmtree(shop.run_dir / "state" / "a" / "spent")
    assert f"{SPENT_CHANGELOG} ends at 0 in partition 0" in shop.trouble()
    assert [shop.status_of(node) for node in shop.nodes] == ["lost", "lost"], "the other node has rows that are missing"
    assert {*shop.answers(FIRST)} == {"right", "503"}, "a new disk doesn't know that there is no such key"
    shop.down()
    shop.configure(2)
    shop.up()
    assert shop.equals(FIRST)
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)


def test_a_partition_of_a_changelog_is_emptied_while_all_runs(shop: Shop) -> None:
    (log,) = shop.layout.kafka.glob(f"data/{SPENT_CHANGELOG}-0")
    broker = next(info.pid for info in supervisor_of(shop.run_dir).processes() if info.name == "kafka")
    os.kill(broker, signal.SIGSTOP)
    shutil.rmtree(log)
    os.kill(broker, signal.SIGKILL)
    shop.write(ORDERS, LATER)
    gone = lambda: supervisor_of(shop.run_dir).process(APP).exit_status == ExitCode.CONFIGURATION  # noqa: E731
    assert eventually(gone, SECONDS, poll_s=1), "it ends for good, at its start or at its next batch"
    said = shop.trouble()
    assert f"{SPENT_CHANGELOG} ends at 0 in partition 0" in said
    wrong = set.intersection(*({*shop.differences(each, "spent", partial=True)} for each in (FIRST, FIRST + LATER)))
    assert wrong == set(), "nodes answer from the rows that they have; other partitions had gone on"
    shop.down()
    shop.configure(2)
    shop.up()
    assert shop.equals(FIRST + LATER)


def test_a_source_is_deleted_and_made_anew(shop: Shop) -> None:
    admin = shop.admin()
    partitions = len(admin.list_topics(ORDERS, timeout=30).topics[ORDERS].partitions)
    shop.delete_topic(ORDERS)
    assert eventually(lambda: ORDERS not in shop.topics(), SECONDS)
    (made,) = admin.create_topics([NewTopic(ORDERS, partitions)]).values()
    made.result(timeout=30)
    shop.write(ORDERS, LATER)
    assert f"{ORDERS} (deleted and recreated)" in shop.trouble()
    assert [shop.status_of(node) for node in shop.nodes] == ["ready", "ready"], "no row is lost"
    assert shop.differences(FIRST) == [], "and none mixes with records of the other topic"
    shop.down()
    assert f"{ORDERS} (deleted and recreated)" in shop.trouble()
    assert shop.differences(FIRST) == []
    shop.down()
    shop.configure(2)
    shop.up()
    assert shop.equals(LATER), "all but the first orders, which no topic has"
    shop.write(ORDERS, FIRST)
    assert shop.equals(LATER + FIRST)


def test_the_run_directory_is_lost(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    broker = start_broker(tmp_path / "broker")
    try:
        with shop_in(project, kafka_bootstrap=broker.bootstrap) as shop:
            shop.down()
            shutil.rmtree(shop.run_dir)
            said = shop.trouble()
            assert "has no checkpoint and no claim" in said
            assert "it would count its input twice" in said
            assert shop.equals(FIRST), "nodes restore the rows from Kafka"
            shop.down()
            shop.configure(2)
            shop.up()
            shop.write(ORDERS, LATER)
            assert shop.equals(FIRST + LATER)
    finally:
        broker.stop()


def test_stores_on_disks_are_lost_while_all_runs(shop: Shop) -> None:
    state, tasks = shop.run_dir / "state", shop.run_dir / "tasks"
    shutil.rmtree(state / "a" / "spent")
    assert eventually(lambda: any((state / "a" / "spent").glob("*/CURRENT")), SECONDS), "it notices, and restores"
    processes = {info.name: info.pid for info in supervisor_of(shop.run_dir).processes()}
    for name, folder in (("node-a", state / "a"), (APP, tasks)):
        os.kill(processes[name], signal.SIGKILL)
        shutil.rmtree(folder)
    assert shop.differences(FIRST) == [], "the other node answers"
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)
    shop.up()


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        project = disk / "project"
        project.mkdir()
        with shop_in(project, start_timeout_s="60") as shop:
            filler = fill(disk, but_for=8 << 20)
            assert shop.differences(FIRST) == [], "reads go on"
            assert "everything runs already, but only" in shop.output("up")
            supervisor_of(shop.run_dir).stop(APP)
            first, *_ = shop.up(code=1).splitlines()
            assert "MB of disk are free" in first, "nothing is begun"
            assert shop.differences(FIRST) == []
            filler.unlink()
            shop.up()
            shop.write(ORDERS, LATER)
            assert shop.equals(FIRST + LATER)


def test_an_app_that_ends_for_good_and_a_frozen_airflow_take_nothing_down(shop: Shop) -> None:
    shop.down()
    claim = shop.run_dir / "checkpoints" / APP / "gen-1.claim.json"
    right = claim.read_bytes()
    claim.write_bytes(json.dumps({**json.loads(right), "query_id": "another"}).encode())
    said = shop.trouble()
    assert "exit code 78" in said
    assert "another query wrote it" in said
    assert shop.differences(FIRST) == [], "nodes answer"
    claim.write_bytes(right)
    shop.up()
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)

    shop.down()
    limited = {**shop.process.environment, "STOREKEEPER_START_TIMEOUT_S": "90"}
    impatient = Shop(type(shop.process)(shop.run_dir, limited))
    coming = impatient.process.begin("up")
    frozen: list[int] = []

    def freeze() -> bool:
        if not shop.layout.supervisor_secret.exists():
            return False
        try:
            found = supervisor_of(shop.run_dir).processes()
        except SupervisorUnreachableError:  # it starts
            return False
        frozen.extend(info.pid for info in found if info.name == "airflow-api-server" and info.pid)
        return bool(frozen)

    assert eventually(freeze, SECONDS, poll_s=0.2)
    os.kill(frozen[0], signal.SIGSTOP)
    said, _ = coming.communicate(timeout=600)
    assert coming.returncode == 4, said
    assert any(line.startswith("airflow-api-server: ") and "start_timeout_s" in line for line in said.splitlines())
    assert shop.differences(FIRST + LATER) == [], "all else is up"
    os.kill(frozen[0], signal.SIGCONT)
    impatient.up()


def test_a_table_is_changed_by_others_or_damaged(shop: Shop, tmp_path: Path) -> None:
    shop.output("snapshot", "create", "spent")
    assert shop.table_differences(FIRST) == []
    path = shop.run_dir / "delta" / "spent"
    table = DeltaTable(str(path))
    write_deltalake(str(path), pa.table(table.to_pyarrow_table().slice(0, 5)), mode="append")
    shop.output("verify", "spent", code=4)
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER), "the stores go on"
    assert shop.process.call("snapshot", "create", "spent").returncode != 0, "nothing builds on it"
    shop.output("snapshot", "restore", "spent")
    assert shop.table_differences(FIRST) == []
    shop.output("snapshot", "create", "spent")
    shop.output("verify", "spent")
    assert shop.table_differences(FIRST + LATER) == []

    damaged = max(path.rglob("*.parquet"), key=lambda file: file.stat().st_mtime)
    damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2])
    assert shop.process.call("verify", "spent").returncode != 0
    assert shop.process.call("snapshot", "restore", "spent").returncode != 0
    path.rename(tmp_path / "spent-damaged")
    assert shop.process.call("snapshot", "create", "spent").returncode != 0, "a table that is gone is missed"
    (shop.run_dir / "seals" / "spent.json").rename(tmp_path / "spent-damaged-seal.json")
    shop.output("snapshot", "create", "spent")
    shop.output("verify", "spent")
    assert shop.table_differences(FIRST + LATER) == []
