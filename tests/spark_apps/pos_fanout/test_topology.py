from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from spark_apps.pos_fanout.topology import FanoutTopics, fan_out, reached
from spark_apps.records.poison import PoisonRecordError
from spark_apps.records.purchase import PrimePurchase, Reached, decode_purchase
from spark_apps.sink.records import BY_KEY, SinkRecord
from tests.spark_apps.records.sales import sale_bytes

TOPICS = FanoutTopics("pos", "shipment", "hadoop-sink", "purchases")


def fanned(value: bytes, key: bytes | None = b"STR7188") -> list[SinkRecord]:
    return fan_out(key, value, 3, 42, topics=TOPICS, max_record_bytes=100_000)


def topics_of(records: list[SinkRecord]) -> list[str]:
    return [topic for topic, *_ in records]


def test_a_home_delivery_is_a_shipment_of_the_same_bytes_and_lines() -> None:
    value = sale_bytes(CustomerType="NONPRIME")
    records = fanned(value)
    assert [(topic, key, headers) for topic, key, _, headers, _ in records] == [
        ("hadoop-sink", b"STR7188", [("source", b"pos/3/42/0")]),
        ("hadoop-sink", b"STR7188", [("source", b"pos/3/42/1")]),
        ("shipment", b"STR7188", [("source", b"pos/3/42/0")]),
    ]
    assert records[-1][2] is value
    assert [orjson.loads(line or b"")["ItemCode"] for _, _, line, _, _ in records[:-1]] == ["458", "283"]


@pytest.mark.parametrize(
    "changes", [{"DeliveryType": "TAKEAWAY"}, {"DeliveryType": "takeaway", "DeliveryAddress": ...}]
)
def test_what_is_taken_away_is_not_shipped(changes: dict[str, Any]) -> None:
    assert "shipment" not in topics_of(fanned(sale_bytes(**changes)))


def test_a_home_delivery_without_items_is_shipped_all_the_same() -> None:
    assert topics_of(fanned(sale_bytes(InvoiceLineItems=[], CustomerType="NonPrime"))) == ["shipment"]


def test_a_prime_customers_purchase_goes_on_by_card() -> None:
    topic, key, value, headers, partition = fanned(sale_bytes(CustomerType="Prime"))[-1]
    assert (topic, key, headers, partition) == ("purchases", b"4629185211", None, BY_KEY)
    assert decode_purchase(key, value) == PrimePurchase("4629185211", 1_595_688_900_348, 3, 42, "51402977", 11114.5)


def test_after_a_task_every_reader_of_purchases_knows_how_far_it_came() -> None:
    records = reached(3, 42, topics=TOPICS, purchase_partitions=2)
    assert [(topic, key, partition) for topic, key, _, _, partition in records] == [
        ("purchases", None, 0),
        ("purchases", None, 1),
    ]
    assert {decode_purchase(key, value) for _, key, value, _, _ in records} == {Reached(3, 42)}


def test_poison_is_reported() -> None:
    with pytest.raises(PoisonRecordError):
        fanned(b"{}")


def test_rows_give_good_records_dead_letters_and_how_far_they_reach() -> None:
    pytest.importorskip("pyspark")
    from spark_apps.pos_fanout.app import fan_out_rows

    rows = [(b"STR7188", sale_bytes(), 1, 5, 1000), (None, b"\xff", 1, 6, 1001), (b"k", None, 1, 7, 1002)]
    kinds = [pa.binary(), pa.binary(), pa.int32(), pa.int64(), pa.int64()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    batch = pa.record_batch(columns, names=["key", "value", "partition", "offset", "timestamp_ms"])
    records = list(
        fan_out_rows(
            iter([batch]), topics=TOPICS, purchase_partitions=1, dead_letters="pos-dlq", max_record_bytes=100_000
        )
    )
    assert topics_of(records) == [
        *("hadoop-sink", "hadoop-sink", "shipment", "purchases", "pos-dlq", "pos-dlq", "purchases"),
    ]
    dead = [(key, value, dict(headers or ())) for topic, key, value, headers, _ in records if topic == "pos-dlq"]
    whence = {"dlq.topic": b"pos", "dlq.partition": b"1", "dlq.app": b"pos_fanout"}
    error = {"dlq.error.class": b"PoisonRecordError"}
    assert dead == [
        (
            *(None, b"\xff"),
            {**whence, "dlq.offset": b"6", "dlq.timestamp": b"1001", **error}
            | {"dlq.error.message": b"the key is null or empty"},
        ),
        (
            *(b"k", None),
            {**whence, "dlq.offset": b"7", "dlq.timestamp": b"1002", **error}
            | {"dlq.error.message": b"the value is null"},
        ),
    ]
    assert decode_purchase(*records[-1][1:3]) == Reached(1, 7)
