"""The apps on a real broker and real Spark, killed at the worst moments: nothing is lost, doubled or out of order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from harness.app_process import AppProcesses
from harness.broker import Broker, start_broker
from harness.poison import bad_sales
from harness.sales import good_sales
from harness.topics import Record, end_offsets, read_topic, write_topic
from storekeeper.changelog.headers import source_ranges_of
from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.stores.row_digest import row_hash, to_hex

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("test_running_platform.py has the same outputs, engine/test_crashes.py the tasks that run again"),
]

GOOD, BAD = 500, 100
TOPICS = ("pos", "shipment", "loyalty", "hadoop-sink", "pos-dlq", "hadoop_export-dlq")
CHANGELOG = "pos-rewards-changelog"


@dataclass(frozen=True)
class Day:
    """What the apps were given."""

    broker: Broker
    apps: AppProcesses
    good: list[tuple[bytes, bytes]]
    bad: list[tuple[bytes | None, bytes | None]]

    def read(self, topic: str) -> list[Record]:
        return read_topic(self.apps.bootstrap, topic)

    def prime(self) -> list[dict[str, Any]]:
        invoices = [exact(value) for _, value in self.good]
        return [invoice for invoice in invoices if invoice["CustomerType"].upper() == "PRIME"]


def exact(value: bytes | None) -> Any:
    """JSON with its numbers as written."""
    assert value is not None
    return json.loads(value, parse_float=Decimal)


def earned(invoice: dict[str, Any]) -> Decimal:
    return (Decimal(invoice["TotalAmount"]) * Decimal("0.02")).quantize(Decimal("0.0001"), ROUND_HALF_UP)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """A day of invoices, good and bad mixed, gone through all apps; each app is killed on its way."""
    folder = tmp_path_factory.mktemp("pos_apps")
    broker = start_broker(folder / "broker")
    apps = AppProcesses(
        folder / "run",
        broker.bootstrap,
        {"max_offsets_per_trigger": "120", "trigger_interval_ms": "50"},
        constants={"storekeeper.engine.table_sink.stream:TRIGGER_INTERVAL_MS": 50},
    )
    try:
        for topic in TOPICS:
            broker.create_topic(topic)
        broker.create_topic(CHANGELOG, config={"cleanup.policy": "compact"})
        good, bad = good_sales(GOOD, seed=1), bad_sales(BAD)
        records = list(mixed(good, bad))
        half = len(records) // 2
        write_topic(broker.bootstrap, "pos", records[:half])
        run_through(apps, broker, records[half:])
        yield Day(broker, apps, good, bad)
    finally:
        apps.stop()
        broker.stop()


def mixed(
    good: list[tuple[bytes, bytes]], bad: list[tuple[bytes | None, bytes | None]]
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Each bad record after some good ones."""
    every = len(good) // len(bad)
    for number, record in enumerate(good):
        yield record
        if number % every == every - 1:
            yield bad[number // every]


def run_through(apps: AppProcesses, broker: Broker, more: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    """Runs all apps side by side to the end of their topics, through their crashes.

    `more` is written while `pos` runs, once a topic that it writes has more partitions.
    """
    pos = apps.start_crashing("pos", after_batch=1)
    assert pos.await_exit() == -9
    pos = apps.start("pos")
    pos.await_beat(lambda beat: (beat.batch_id or 0) >= 2, "further than where it was killed")
    broker.add_partitions("hadoop-sink", 6)
    pos.kill_jvm()
    assert pos.await_exit() == 1, pos.log_tail()
    beat = apps_heartbeat(apps, "pos")
    assert beat["state"] == "FAILED"
    assert beat["error"].startswith("StreamFailedError: the JVM is gone"), beat["error"]
    write_topic(broker.bootstrap, "pos", more)
    pos = apps.start("pos")
    pos.await_caught_up(end_offsets(apps.bootstrap, "pos"))
    assert pos.terminate() == 0, pos.log_tail()
    export = apps.start_crashing("hadoop_export", after_batch=1, max_offsets_per_trigger="400")
    assert export.await_exit() == -9
    export = apps.start("hadoop_export", max_offsets_per_trigger="10000")
    export.await_caught_up(end_offsets(apps.bootstrap, "hadoop-sink"))
    assert export.terminate() == 0, export.log_tail()


def apps_heartbeat(apps: AppProcesses, app: str) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((apps.run_dir / "heartbeats" / f"{app}.json").read_bytes())
    return content


def test_every_home_delivery_is_shipped_unchanged(day: Day) -> None:
    expected = [(key, value) for key, value in day.good if exact(value)["DeliveryType"].upper() == "HOME-DELIVERY"]
    assert Counter((record.key, record.value) for record in day.read("shipment")) == Counter(expected)


def test_every_prime_invoice_is_notified_in_the_order_of_its_total(day: Day) -> None:
    seen: dict[str, bytes | None] = {}
    totals: dict[str, Decimal] = {}
    for record in day.read("loyalty"):
        note = exact(record.value)
        assert record.key == note["CustomerCardNo"].encode()
        assert note["InvoiceNumber"] not in seen
        seen[note["InvoiceNumber"]] = record.value
        card = note["CustomerCardNo"]
        totals[card] = totals.get(card, Decimal(0)) + note["EarnedLoyaltyPoints"]
        assert note["TotalLoyaltyPoints"] == totals[card]
    prime = {invoice["InvoiceNumber"]: invoice for invoice in day.prime()}
    assert seen.keys() == prime.keys()
    for number, value in seen.items():
        assert exact(value)["EarnedLoyaltyPoints"] == earned(prime[number])
        assert exact(value)["TotalAmount"] == prime[number]["TotalAmount"]


def expected_rewards(day: Day) -> dict[str, dict[str, Any]]:
    rewards: dict[str, dict[str, Any]] = {}
    for invoice in day.prime():
        card = invoice["CustomerCardNo"]
        entry = rewards.setdefault(
            card, {"CustomerCardNo": card, "TotalLoyaltyPoints": Decimal(0), "InvoiceCount": 0, "LastInvoiceTime": 0}
        )
        entry["TotalLoyaltyPoints"] += earned(invoice)
        entry["InvoiceCount"] += 1
        entry["LastInvoiceTime"] = max(entry["LastInvoiceTime"], invoice["CreatedTime"])
    return rewards


def test_the_changelog_ends_with_every_customers_exact_total(day: Day) -> None:
    newest = {record.key: exact(record.value) for record in day.read(CHANGELOG)}
    assert {key.decode(): value for key, value in newest.items() if key is not None} == expected_rewards(day)


def test_changelog_records_say_which_batch_of_which_input_wrote_them(day: Day) -> None:
    batches: dict[int, Any] = {}
    for record in day.read(CHANGELOG):
        headers = record.headers
        assert headers["generation"] == b"1"
        assert int(headers["batch-time"] or b"") == plan_of(day, int(headers["batch-id"] or b""))["at_ms"]
        source = source_ranges_of(list(headers.items()))
        assert batches.setdefault(int(headers["batch-id"] or b""), source) == source
    # A batch of nothing but transactions' own marks changes no customer, and leaves no record that tells its range.
    for batch, source in batches.items():
        before, after = planned_ends(day, batch - 1), planned_ends(day, batch)
        assert source.keys() == {"pos"}
        for partition, (start, end) in source["pos"].items():
            assert (start, end) == (before.get(str(partition), 0), after[str(partition)])


def planned_ends(day: Day, batch: int) -> dict[str, int]:
    """Where a batch of `pos` ends, by its plan; nothing for the batch before the first."""
    ends: dict[str, int] = {} if batch < 0 else plan_of(day, batch)["end"]["pos"]
    return ends


def plan_of(day: Day, batch: int) -> dict[str, Any]:
    plan = day.apps.run_dir / "checkpoints" / "pos" / "gen-1" / "offsets" / str(batch)
    read: dict[str, Any] = json.loads(plan.read_text())
    return read


def test_every_bad_record_and_no_other_is_a_dead_letter(day: Day) -> None:
    origin = {(record.partition, record.offset): record for record in day.read("pos")}
    dead: dict[tuple[int, int], Record] = {}
    for record in day.read("pos-dlq"):
        texts = {name: value.decode() for name, value in record.headers.items() if value is not None}
        assert (texts["dlq.topic"], texts["dlq.app"]) == ("pos", "pos")
        assert texts["dlq.error.class"] == "PoisonRecordError"
        assert texts["dlq.error.message"]
        assert int(texts["dlq.timestamp"]) > 0
        dead[int(texts["dlq.partition"]), int(texts["dlq.offset"])] = record
    for place, record in dead.items():
        assert (record.key, record.value) == (origin[place].key, origin[place].value)
    found = Counter((record.key, record.value) for record in day.read("pos-dlq"))
    assert found == Counter(day.bad)
    assert day.read("hadoop_export-dlq") == []


def test_the_export_holds_every_line_item_once_and_nothing_personal(day: Day) -> None:
    table = DeltaTable(str(day.apps.run_dir / "delta" / "hadoop_export_staged"))
    rows = table.to_pyarrow_table().to_pylist()
    expected = Counter(
        (invoice["InvoiceNumber"], line["ItemCode"], line["ItemDescription"], line["ItemPrice"], line["TotalValue"])
        for invoice in (exact(value) for _, value in day.good)
        for line in invoice["InvoiceLineItems"]
    )
    columns = ("InvoiceNumber", "ItemCode", "ItemDescription", "ItemPrice", "TotalValue")
    assert Counter(tuple(row[name] for name in columns) for row in rows) == expected
    assert {row["day"].isoformat() for row in rows} == {"2020-07-24", "2020-07-25", "2020-07-26", "2020-07-27"}
    texts = [text for row in rows for text in row.values() if isinstance(text, str)]
    contacts = {exact(v)["DeliveryAddress"]["ContactNumber"] for _, v in day.good if "DeliveryAddress" in exact(v)}
    for text in texts:
        assert "46291852" not in text
        assert "Something Street" not in text
        assert text not in contacts


def test_every_record_is_there_once(day: Day) -> None:
    for topic in ("shipment", "loyalty", CHANGELOG, "pos-dlq"):
        records = [
            (record.partition, record.key, record.value, tuple(record.headers.items())) for record in day.read(topic)
        ]
        assert len(set(records)) == len(records), topic


def test_the_crashes_really_made_the_apps_run_batches_again(day: Day) -> None:
    # Otherwise the tests above would prove nothing.
    assert "batch_was_committed" in (day.apps.run_dir / "pos.log").read_text()


def test_a_stopped_app_says_so(day: Day) -> None:
    for app, source in (("pos", "pos"), ("hadoop_export", "hadoop-sink")):
        beat = apps_heartbeat(day.apps, app)
        assert beat["state"] == AppState.STOPPED
        assert beat["offsets"] == beat["latest_offsets"] == end_offsets(day.apps.bootstrap, source)
        assert beat["error"] is None


def test_a_snapshot_is_the_changelog_and_the_totals(day: Day) -> None:
    done = day.apps.run("snapshot", "create", "rewards", "--output", "json")
    assert done.returncode == 0, done.stderr[-3000:]
    summary = orjson.loads(done.stdout.splitlines()[-1])
    assert summary["committed"]
    assert summary["source_offsets"] == end_offsets(day.apps.bootstrap, "pos")
    newest = {
        record.key or b"": (record.partition, record.offset, record.value or b"") for record in day.read(CHANGELOG)
    }
    table = DeltaTable(str(day.apps.run_dir / "delta" / "rewards"))
    assert table.version() == summary["delta_version"]
    rows = table.to_pyarrow_table().to_pylist()
    assert {row["_key"]: (row["_partition"], row["_offset"], row["_value"]) for row in rows} == newest
    for partition in range(4):
        held = [
            row_hash(row["_key"], row["_value"], row["_offset"], row["_timestamp_ms"])
            for row in rows
            if row["_partition"] == partition
        ]
        assert summary["digests"][str(partition)] == to_hex(sum(held) % 2**64)
    found = {
        row["CustomerCardNo"]: {
            **{name: row[name] for name in ("CustomerCardNo", "TotalLoyaltyPoints", "InvoiceCount")},
            "LastInvoiceTime": round(row["LastInvoiceTime"].timestamp() * 1000),
        }
        for row in rows
    }
    assert found == expected_rewards(day)
    verified = day.apps.run("verify", "rewards", "--output", "json")
    assert verified.returncode == 0, verified.stdout[-1000:] + verified.stderr[-3000:]
    details = orjson.loads(verified.stdout.splitlines()[-1])["details"]
    assert (details["rows"], details["superseded"]) == (len(newest), 0)
    compared = details["compared"]
    assert compared.pop(f"snapshot {summary['delta_version']}") == 4
    [(local, partitions)] = compared.items()
    assert (local.startswith("local store "), partitions) == (True, 4)


def test_a_second_copy_is_turned_away(day: Day, tmp_path: Path) -> None:
    from storekeeper.clock import ManualClock
    from storekeeper.engine.runtime.lease import Lease

    with Lease(day.apps.run_dir / "leases" / "pos.lock", clock=ManualClock(), wait=lambda _: None) as held:
        held.acquire(0)
        done = replace(day.apps, constants={"storekeeper.engine.runtime.lease:TIMEOUT_S": 0}).run("run", "pos")
    assert done.returncode == 75
    assert "pos is running already" in done.stderr


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("nowhere", "topics are missing: nowhere"),
        ("hadoop_export-dlq", "nothing has topic pos any more"),  # the task that splits it up has no store to go on by
        ("hadoop-sink", "masked.to writes topic 'hadoop-sink', and what hadoop-sink reads there leads to it again"),
    ],
)
def test_a_start_that_cannot_work_is_one_sentence(day: Day, source: str, sentence: str) -> None:
    apps = replace(
        day.apps,
        constants={"spark_apps.pos:POS_TOPIC": source, "storekeeper.engine.runtime.topics:PATIENCE_S": 1},
    )
    done = apps.run("run", "pos")
    assert done.returncode == 78, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert apps_heartbeat(day.apps, "pos")["state"] == "FAILED"


def test_another_apps_checkpoint_is_refused(day: Day) -> None:
    theirs, mine = (day.apps.run_dir / "checkpoints" / app for app in ("pos", "hadoop_export"))
    aside = mine.rename(mine.with_name("aside"))
    try:
        mine.mkdir()
        (mine / "gen-1").symlink_to(theirs / "gen-1")
        done = day.apps.run("run", "hadoop_export")
        assert done.returncode == 78, done.stderr
        assert "is not the one of hadoop_export generation 1" in done.stderr
    finally:
        (mine / "gen-1").unlink()
        mine.rmdir()
        aside.rename(mine)


@pytest.mark.parametrize("topic", [CHANGELOG, "pos"])
def test_a_start_with_more_partitions_than_the_state_was_made_with_is_refused(day: Day, topic: str) -> None:
    day.broker.add_partitions(topic, 6)
    done = day.apps.run("run", "pos")
    assert done.returncode == 78, done.stderr
    assert f"topic {topic} has 6 partitions" in done.stderr
    assert "the state of pos was made with 4" in apps_heartbeat(day.apps, "pos")["error"]
