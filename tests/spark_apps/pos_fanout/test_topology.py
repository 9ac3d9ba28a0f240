from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from spark_apps.pos_fanout.topology import FanoutTopics, OutputRecord, fan_out
from spark_apps.records.poison import PoisonRecordError
from tests.spark_apps.records.sales import sale_bytes

TOPICS = FanoutTopics("pos", "shipment", "hadoop-sink")


def fanned(value: bytes, key: bytes | None = b"STR7188") -> list[OutputRecord]:
    return fan_out(key, value, 3, 42, topics=TOPICS, max_record_bytes=100_000)


def test_a_home_delivery_is_a_shipment_of_the_same_bytes_and_lines() -> None:
    value = sale_bytes()
    records = fanned(value)
    assert [(record.topic, record.key, record.source) for record in records] == [
        ("hadoop-sink", b"STR7188", "pos/3/42/0"),
        ("hadoop-sink", b"STR7188", "pos/3/42/1"),
        ("shipment", b"STR7188", "pos/3/42/0"),
    ]
    assert records[-1].value is value
    assert [orjson.loads(record.value)["ItemCode"] for record in records[:-1]] == ["458", "283"]


@pytest.mark.parametrize(
    "changes", [{"DeliveryType": "TAKEAWAY"}, {"DeliveryType": "takeaway", "DeliveryAddress": ...}]
)
def test_what_is_taken_away_is_not_shipped(changes: dict[str, Any]) -> None:
    assert {record.topic for record in fanned(sale_bytes(**changes))} == {"hadoop-sink"}


def test_a_home_delivery_without_items_is_shipped_all_the_same() -> None:
    assert [record.topic for record in fanned(sale_bytes(InvoiceLineItems=[]))] == ["shipment"]


def test_poison_is_reported() -> None:
    with pytest.raises(PoisonRecordError):
        fanned(b"{}")


def test_batches_hold_good_records_and_dead_letters_side_by_side() -> None:
    pytest.importorskip("pyspark")
    from spark_apps.pos_fanout.app import fan_out_batches

    rows = [(b"STR7188", sale_bytes(), 0, 5, 1000), (None, b"\xff", 1, 6, 1001), (b"k", None, 1, 7, 1002)]
    kinds = [pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.int64()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    batch = pa.record_batch(columns, names=["key", "value", "partition", "offset", "timestamp_ms"])
    good, dead = fan_out_batches([batch], topics=TOPICS, dead_letters="pos-dlq", max_record_bytes=100_000)
    assert good.column("topic").to_pylist() == ["hadoop-sink", "hadoop-sink", "shipment"]
    assert good.column("error_class").null_count == 3
    whence = ("topic", "key", "value", "source", "partition", "offset", "timestamp_ms", "error_class", "error_message")
    rows_read = [tuple(row[name] for name in whence) for row in dead.to_pylist()]
    assert rows_read == [
        ("pos-dlq", None, b"\xff", None, 1, 6, 1001, "PoisonRecordError", "the key is null or empty"),
        ("pos-dlq", b"k", None, None, 1, 7, 1002, "PoisonRecordError", "the value is null"),
    ]
