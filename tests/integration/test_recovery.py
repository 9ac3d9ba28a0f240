"""The procedures of back-up-and-recover.md, followed on a platform with an app of one's own."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from harness.topics import read_topic
from storekeeper.ops.waiting import eventually
from tests.integration.shop import APP, FIRST, LATER, SECONDS, SPENT_CHANGELOG, Records, Shop, shop_in
from tests.integration.small_disk import fill, small_disk
from tests.integration.spending_app import ORDERS

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(2400)),
    pytest.mark.long("test_lost_topics.py and test_bring_up.py have it without processes"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with shop_in(tmp_path) as made:
        yield made


def test_kafkas_data_is_lost(shop: Shop, tmp_path: Path) -> None:
    shop.down()
    kafka, away = shop.layout.kafka, tmp_path / "another volume"
    kafka.rename(away)
    for _ in range(2):
        told = shop.up(code=1)
        assert told.startswith("storekeeper: Kafka's data is lost: ")
        assert SPENT_CHANGELOG in told
        assert not kafka.exists()
    away.rename(kafka)
    shop.up()
    assert shop.equals(FIRST), "it was put back"
    shop.down()
    shutil.rmtree(kafka)
    shop.configure(2)
    assert ORDERS in shop.up(code=1), "its sources are gone, too"
    shop.up("--accept-loss")
    shop.fill()
    shop.down()
    shop.up()
    assert shop.equals(FIRST), "later starts don't need the option"


def test_what_is_lost_beside_kafka_is_put_back_or_restored(shop: Shop, tmp_path: Path) -> None:
    run_dir, backup = shop.run_dir, tmp_path / "back-up"
    shop.output("snapshot", "create", "spent")
    shop.output("verify", "spent")
    shop.down()
    shutil.copytree(run_dir, backup, symlinks=True)

    for lost in ("tasks", "state"):
        assert any((run_dir / lost).rglob("*")), "there is something to lose"
        shutil.rmtree(run_dir / lost)
    shop.up()
    assert shop.equals(FIRST), "tasks and nodes restore from the changelogs"

    shop.down()
    (checkpoint,) = (run_dir / "checkpoints" / APP).glob("gen-1")
    claim = checkpoint.with_name("gen-1.claim.json")
    shutil.rmtree(checkpoint)
    claim.unlink()
    assert "checkpoint" in shop.trouble()
    assert shop.equals(FIRST), "nodes answer"
    shop.down()
    old = backup / "checkpoints" / APP
    shutil.copytree(old / "gen-1", checkpoint)
    shutil.copy2(old / claim.name, claim)
    shop.up()

    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)
    shop.down()
    newer = tmp_path / "newer"
    checkpoint.rename(newer)
    shutil.copytree(old / "gen-1", checkpoint)
    assert "exit code 78" in shop.trouble(), "an old checkpoint without its topics"
    assert shop.equals(FIRST + LATER)
    shop.down()
    shutil.rmtree(checkpoint)
    newer.rename(checkpoint)
    shop.up()

    shop.down()
    shutil.rmtree(run_dir)
    shutil.copytree(backup, run_dir, symlinks=True)
    shop.up()
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER), "the whole run directory was put back"

    (run_dir / "delta" / "spent").rename(tmp_path / "spent-damaged")
    (run_dir / "seals" / "spent.json").rename(tmp_path / "spent-damaged-seal.json")
    shop.output("snapshot", "create", "spent")
    shop.output("verify", "spent")
    shop.output("snapshot", "restore", "spent")
    shop.output("verify", "spent")


def test_damaged_stores_a_lost_database_of_airflow_and_a_killed_supervisor(shop: Shop) -> None:
    shop.down()
    stores = [path for path in shop.run_dir.glob("state/*/spent/*") if path.is_dir()]
    assert stores
    for store in stores:
        (store / "CURRENT").write_text("no manifest\n")
    databases = [*shop.layout.airflow.glob("airflow.db*")]
    assert databases
    for database in databases:
        database.unlink()
    shop.up()
    assert shop.equals(FIRST), "restored from the changelog"
    assert all([*store.parent.glob(f"{store.name}.corrupt-*")] for store in stores), "set aside, to be looked at"

    os.kill(int((shop.layout.supervisor / "supervisord.pid").read_text()), signal.SIGKILL)
    shop.up()
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)


def write_what_is_taken(shop: Shop, records: Records) -> int:
    """Writes records as long as the broker takes them. Returns how many it has not confirmed."""
    producer = Producer({"bootstrap.servers": shop.kafka, "message.timeout.ms": 30_000, "acks": "all"})
    refused: list[KafkaError] = []
    for key, value in records:
        producer.produce(ORDERS, value, key, on_delivery=lambda error, _: refused.append(error) if error else None)
    producer.flush(60)
    return len(refused)


def orders_in(shop: Shop) -> Records:
    return [(record.key or b"", record.value or b"") for record in read_topic(shop.kafka, ORDERS)]


def test_a_disk_is_full_while_writes_go_on(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        project = disk / "project"
        project.mkdir()
        with shop_in(project) as shop:
            filler = fill(disk)
            assert eventually(lambda: write_what_is_taken(shop, LATER) > 0, SECONDS), "the broker can't take more"
            assert {shop.code_of("spent", f"c{number}") for number in range(100)} == {200}, "nodes go on"
            assert f"The disk under {shop.run_dir} is full: free some space" in shop.up(code=1)
            filler.unlink()
            shop.up()
            written = orders_in(shop)
            assert len(written) >= len(FIRST), "nothing is lost"
            assert shop.equals(written), "nothing is counted twice"
            shop.write(ORDERS, LATER)
            assert shop.equals(written + LATER)
