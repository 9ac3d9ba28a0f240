"""Collects what the platform made of the demo's input: from the topics, over HTTP, from the Delta tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from deploy.demo.observation import TopicRecord
from deploy.demo.oracle import MASKED_FIELDS, MaskedRow, Reward
from state.snapshots.sql import query

_POLL_TIMEOUT_S = 5.0
_IDLE_POLLS = 12
_ATTEMPTS = 25


def read_topic(bootstrap: str, topic: str) -> list[TopicRecord]:
    """Every record that the topic holds now, by partition, then by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "storekeeper-demo",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
            "log_level": 0,
        }
    )
    try:
        ends = _ends(consumer, topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition, end in ends.items() if end])
        records = list(_until(consumer, ends))
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def records_at(records: Iterable[TopicRecord]) -> dict[tuple[int, int], TopicRecord]:
    """The records by partition and offset."""
    return {(record.partition, record.offset): record for record in records}


def read_snapshot(delta_root: Path) -> dict[str, Reward]:
    """The rows of the newest snapshot of the rewards store, by card."""
    sql = "SELECT CustomerCardNo, TotalLoyaltyPoints, InvoiceCount, LastInvoiceTime FROM rewards"
    rows = query(delta_root, sql).rows
    found = {card: Reward(Decimal(total), int(count), _epoch_ms(last)) for card, total, count, last in rows}
    if len(found) != len(rows):
        # One row too many must not hide behind its twin.
        found[f"{len(rows) - len(found)} repeated rows"] = Reward(Decimal(0), 0, 0)
    return found


def read_export(delta_root: Path) -> list[MaskedRow]:
    """The rows of the published export, with the values that the oracle compares."""
    rows = query(delta_root, f"SELECT {', '.join(MASKED_FIELDS)} FROM hadoop_export").rows  # noqa: S608 (constants)
    return [tuple(map(_comparable, row)) for row in rows]


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    return {partition: _end(consumer, TopicPartition(topic, partition)) for partition in partitions}


def _end(consumer: Consumer, place: TopicPartition) -> int:
    for _ in range(_ATTEMPTS):
        try:
            return int(consumer.get_watermark_offsets(place, timeout=10)[1])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            time.sleep(0.2)  # a topic that was just made is still finding its leader
    return int(consumer.get_watermark_offsets(place, timeout=10)[1])


def _until(consumer: Consumer, ends: dict[int, int]) -> Iterator[TopicRecord]:
    idle = 0
    while any(position.offset < ends[position.partition] for position in consumer.position(consumer.assignment())):
        messages = consumer.consume(10_000, timeout=0.5)
        idle = 0 if messages else idle + 1
        if idle > _IDLE_POLLS:
            raise TimeoutError("a topic's records could not all be read: is the broker still up?")
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            yield TopicRecord(
                message.partition(), message.offset(), message.key(), message.value(), _headers(message.headers())
            )


def _headers(headers: Any) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers or ()}


def _comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return _epoch_ms(value)
    return Decimal(str(value)) if isinstance(value, float) else value


def _epoch_ms(value: datetime) -> int:
    return round(value.timestamp() * 1000)
