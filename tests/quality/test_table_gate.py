from __future__ import annotations

import datetime
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from harness.sales import sale, sale_bytes
from quality.hadoop_export import EXPORT
from spark_apps.records.invoice import parse_invoice
from spark_apps.records.masked import masked_values
from storekeeper.apps.spark_properties import SparkProperties
from storekeeper.apps.table_progress import encode_progress
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.errors import SnapshotDamagedError
from storekeeper.quality.errors import StagedTableError
from storekeeper.quality.gate import Batch, no_session
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import PUBLISHER, TableGate
from storekeeper.quality.verdict import Status, Verdict, VerdictArchive
from tests.local_tables import local_table
from tests.staged_lines import line, stage

pytestmark = pytest.mark.spark

CLOCK = ManualClock(now_ms=1_760_000_000_000)
CARD = "4629185211"
PHONE = "98891-27612"
EMAIL = "meera.canary@example.org"
DISGUISED = "No text decodes to a card or phone number or an address."


@pytest.fixture
def gate(settings: QualitySettings, spark: SparkSession) -> TableGate:
    return TableGate(EXPORT, settings, CLOCK, lambda: spark)


def decide(gate: TableGate) -> Verdict:
    batch = gate.pending()
    assert batch is not None
    return gate.decide(batch)


def published_invoices(settings: QualitySettings) -> list[str]:
    table = DeltaTable(local_table(settings, "hadoop_export"))
    return sorted(table.scan(columns=["InvoiceNumber"]).read_all()["InvoiceNumber"].to_pylist())


def without_address(offset: int) -> dict[str, Any]:
    return line(offset, DeliveryType="TAKEAWAY", City=None, State=None, PinCode=None)


def test_a_good_batch_is_published_and_entered_in_a_catalogue_and_bad_or_repeated_lines_keep_their_batch_back(
    spark: SparkSession, settings: QualitySettings
) -> None:
    hive = SparkProperties({"spark.sql.catalogImplementation": "hive"})
    gate = TableGate(EXPORT, settings.model_copy(update={"spark": hive}), CLOCK, lambda: spark)
    tomorrow = datetime.date(2025, 10, 10)
    stage(settings, line(1), without_address(2))
    stage(settings, line(3, day=tomorrow, CustomerType="NONPRIME"))
    verdict = decide(gate)
    assert verdict.reasons == ()
    assert (verdict.status, verdict.first_version, verdict.last_version, verdict.rows) == (Status.PUBLISHED, 0, 1, 3)
    table = DeltaTable(local_table(settings, "hadoop_export"))
    assert tuple(field.name for field in table.schema().fields) == EXPORT.published_columns
    assert table.metadata().partition_columns == ["day"]
    assert table.transaction_version(PUBLISHER) == 1
    good = ["INV-0000000001", "INV-0000000002", "INV-0000000003"]
    assert published_invoices(settings) == good
    assert (settings.data_docs_dir("hadoop_export") / "index.html").is_file()
    assert gate.last_verdict() == verdict
    assert gate.pending() is None
    # The session of tests was started without Hive, and keeps its catalogue in memory.
    cities = spark.table("hadoop_export").schema["City"]
    spark.sql("DROP TABLE hadoop_export")
    assert cities.metadata["comment"] == "Of the delivery address; null without one."
    version = DeltaTable(local_table(settings, "hadoop_export")).version()

    # A line of the batch before, and one that is there twice in this batch.
    stage(settings, line(1), line(4), line(4), line(5, TotalValue=Decimal("59.0000")))
    verdict = decide(gate)
    assert verdict.status is Status.QUARANTINED
    assert sorted(verdict.reasons) == [
        "Each row is there once, by _partition, _offset. Failing rows: 3.",
        "TotalValue is ItemPrice x ItemQty. Failing rows: 1.",
    ]
    assert published_invoices(settings) == good
    assert DeltaTable(local_table(settings, "hadoop_export")).version() == version
    assert gate.pending() is None
    stage(settings, line(6))
    assert gate.pending() == Batch(3, 3)
    assert decide(gate).status is Status.PUBLISHED, "the next good batch is published without it"
    assert published_invoices(settings) == [*good, "INV-0000000006"]


def test_whatever_is_wrong_with_lines_is_told(gate: TableGate, spark: SparkSession, settings: QualitySettings) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ItemDescription": f"gift for {CARD}"}, "ItemDescription doesn't hold a card or phone number."),
        ({"City": f"Ulhasnagar {PHONE}"}, "City doesn't hold a card or phone number."),
        ({"State": EMAIL}, "State doesn't hold an email address."),
        ({"InvoiceNumber": CARD}, "InvoiceNumber doesn't hold a card or phone number."),
        ({"ItemDescription": b64encode(CARD.encode()).decode()}, DISGUISED),
        ({"PosID": PHONE.encode().hex()}, DISGUISED),
        ({"CustomerType": "GOLD"}, "CustomerType is one of PRIME|NONPRIME, in any case of letters."),
        ({"PaymentMethod": None}, "PaymentMethod is always there."),
    ]
    stage(settings, line(1), *(line(number, **changes) for number, (changes, _) in enumerate(wrong, 2)))
    counts = Counter(reason for _, reason in wrong)
    assert set(decide(gate).reasons) == {f"{reason} Failing rows: {rows}." for reason, rows in counts.items()}


def test_a_missing_column_is_a_verdict_and_not_an_error(gate: TableGate, settings: QualitySettings) -> None:
    stage(settings, line(1), without="ItemPrice")
    assert decide(gate).reasons == ("The columns are the declared ones.",)


def test_a_crash_between_publication_and_archive_neither_repeats_nor_forgets(
    gate: TableGate, spark: SparkSession, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(settings, line(1))
    batch = gate.pending()
    assert batch is not None

    def crash(archive: VerdictArchive, verdict: Verdict) -> Path:
        raise RuntimeError("killed")

    with monkeypatch.context() as crashing:
        crashing.setattr(VerdictArchive, "put", crash)
        with pytest.raises(RuntimeError, match="killed"):
            gate.decide(batch)
    assert gate.pending() is None
    verdict = gate.last_verdict()
    assert verdict is not None
    assert verdict.passed
    assert VerdictArchive(settings.verdict_dir("hadoop_export")).last() == verdict
    gate.decide(batch)
    assert published_invoices(settings) == ["INV-0000000001"]


def test_nothing_is_decided_about_a_rewritten_table(
    gate: TableGate, spark: SparkSession, settings: QualitySettings
) -> None:
    stage(settings, line(1), line(2))
    DeltaTable(local_table(settings, "hadoop_export_staged")).delete("_offset = 1")
    with pytest.raises(StagedTableError, match="may only grow"):
        decide(gate)
    assert gate.pending() is not None


def test_a_staged_table_without_change_data_feed_is_refused_before_spark_starts(settings: QualitySettings) -> None:
    gate = TableGate(EXPORT, settings, CLOCK, no_session)
    write_deltalake(local_table(settings, "hadoop_export_staged"), pa.table({"a": [1]}))
    with pytest.raises(StagedTableError, match=r"delta\.enableChangeDataFeed"):
        gate.pending()


def test_nothing_staged_is_nothing_to_decide(gate: TableGate) -> None:
    assert gate.pending() is None
    assert gate.last_verdict() is None


def test_nothing_builds_on_a_table_that_is_not_as_the_gate_left_it(gate: TableGate, settings: QualitySettings) -> None:
    stage(settings, line(1))
    assert decide(gate).passed
    stage(settings, line(2))
    for name in ("hadoop_export_staged", "hadoop_export"):
        path = local_table(settings, name)
        file = min(path.glob("day=*/*.parquet"), key=lambda one: one.stat().st_mtime_ns)
        sound = file.read_bytes()
        file.write_bytes(sound[:-1] + b"!")
        with pytest.raises(SnapshotDamagedError, match=rf"table {name} isn't .* 0: day=\S+{file.name} was changed"):
            gate.pending()
        with pytest.raises(SnapshotDamagedError, match=f"table {name} "):
            gate.decide(Batch(1, 1))
        file.write_bytes(sound)
        path.rename(path.with_name("elsewhere"))
        with pytest.raises(SnapshotDamagedError, match=f"table {name} is gone from"):
            gate.pending()
        path.with_name("elsewhere").rename(path)
    assert published_invoices(settings) == ["INV-0000000001"]
    assert decide(gate).passed
    DeltaTable(local_table(settings, "hadoop_export")).delete()
    with pytest.raises(SnapshotDamagedError, match=r"0+2\.json was added by DELETE"):
        gate.pending()


def test_compaction_of_the_staged_table_is_no_new_batch_of_rows(gate: TableGate, settings: QualitySettings) -> None:
    stage(settings, line(1))
    stage(settings, line(2))
    decide(gate)
    compacted = DeltaTable(local_table(settings, "hadoop_export_staged")).optimize.compact()
    assert compacted["numFilesRemoved"] == 2
    verdict = decide(gate)
    assert (verdict.status, verdict.rows) == (Status.PUBLISHED, 0)
    assert published_invoices(settings) == ["INV-0000000001", "INV-0000000002"]


def test_a_further_column_is_a_leak_and_no_value_of_the_data_is_written_beside_the_tables(
    gate: TableGate, spark: SparkSession, settings: QualitySettings, tmp_path: Path
) -> None:
    stage(
        settings,
        line(1, ItemDescription=f"canarytext {CARD}", City=f"canarycity {PHONE}", State=EMAIL),
        line(2, CustomerType="canarytype", TotalValue=Decimal("987654.3210"), InvoiceNumber="4012888888881881"),
        line(3, Leak="canaryleak"),
        extra="Leak",
    )
    reasons = decide(gate).reasons
    assert len(reasons) == 7
    assert "The columns are the declared ones." in reasons
    assert not local_table(settings, "hadoop_export").exists()
    canaries = [CARD, PHONE, "27612", "canary", "Ulhasnagar", "987654.32", "4012888888881881"]
    written = [path for path in (tmp_path / "quality").rglob("*") if path.is_file()]
    assert {"data_docs", "verdicts"} <= {path.relative_to(tmp_path / "quality").parts[0] for path in written}
    for path in written:
        content = path.read_bytes()
        assert [canary for canary in canaries if canary.encode() in content] == [], path


class OneStore:
    """Partition 2 of the line items: at each offset, one of store STR7188 with a total of 59.97."""

    def __init__(self, oldest: int = 0) -> None:
        self.oldest = oldest

    def first_offset(self, partition: int) -> int:
        return self.oldest

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        item = sale()["InvoiceLineItems"][0] | {"TotalValue": 59.97}
        [value] = masked_values(parse_invoice(b"k", sale_bytes(InvoiceLineItems=[item])))
        for _ in range(start, end):
            yield b"k", value


def reached(end: int) -> str:
    return encode_progress("hadoop_export", Position({"hadoop-sink": {2: end}}))


def test_a_batch_is_compared_with_the_line_items_that_it_reaches_to(
    spark: SparkSession, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = OneStore()
    monkeypatch.setattr("storekeeper.quality.table_gate.Topic", lambda *_: topic)
    settings = settings.model_copy(update={"quality_reconcile": True})
    gate = TableGate(EXPORT, settings, CLOCK, lambda: spark)
    stage(settings, line(0), line(1), metadata=reached(2))
    assert decide(gate).reasons == ()
    stage(settings, line(2), line(4), metadata=reached(5))
    assert decide(gate).reasons == (
        "Each record of topic hadoop-sink in the batch's offset range is there exactly once. Failing rows: 1.",
        (
            "The sum of TotalValue equals that of topic hadoop-sink for each _partition, StoreID; "
            "each failing row is a group. Failing rows: 1."
        ),
    )
    stage(settings, line(5))
    assert decide(gate).reasons == ("The batch's commits say how far they reach in topic hadoop-sink.",)
    stage(settings, line(6), metadata=reached(7))
    topic.oldest = 6
    assert decide(gate).reasons == ("The batch can be compared with topic hadoop-sink.",)


def test_the_first_batch_of_a_topic_that_begins_behind_0_is_compared_from_there(
    spark: SparkSession, settings: QualitySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storekeeper.quality.table_gate.Topic", lambda *_: OneStore(oldest=3))
    gate = TableGate(EXPORT, settings.model_copy(update={"quality_reconcile": True}), CLOCK, lambda: spark)
    stage(settings, line(3), line(4), metadata=reached(5))
    assert decide(gate).reasons == ()
