"""Collects what the platform made of the demo's input: from the topics, over HTTP, from the Delta tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from demo.comparison import TopicRecord
from demo.oracle import MASKED_FIELDS, MaskedRow, Reward
from storekeeper.changelog import bounded_reader
from storekeeper.kafka.connection import Kafka
from storekeeper.locations import Location
from storekeeper.snapshots.sql import query


def read_topic(kafka: Kafka, topic: str) -> list[TopicRecord]:
    """Every record that the topic holds now, by partition, then by offset."""
    found = bounded_reader.read_topic(kafka, topic)
    return [TopicRecord(m.partition(), m.offset(), m.key(), m.value(), _headers(m.headers())) for m in found]


def records_at(records: Iterable[TopicRecord]) -> dict[tuple[int, int], TopicRecord]:
    """The records by partition and offset."""
    return {(record.partition, record.offset): record for record in records}


def read_snapshot(delta_root: Location) -> dict[str, Reward]:
    """The rows of the newest snapshot of the rewards store, by card."""
    sql = "SELECT CustomerCardNo, TotalLoyaltyPoints, InvoiceCount, LastInvoiceTime FROM rewards"
    rows = query(delta_root, sql).rows
    found = {card: Reward(Decimal(total), int(count), _epoch_ms(last)) for card, total, count, last in rows}
    if len(found) != len(rows):
        # A repeated row must not be lost in the dict.
        found[f"{len(rows) - len(found)} repeated rows"] = Reward(Decimal(0), 0, 0)
    return found


def read_export(delta_root: Location) -> list[MaskedRow]:
    """The rows of the published export, with the values that the oracle compares."""
    rows = query(delta_root, f"SELECT {', '.join(MASKED_FIELDS)} FROM hadoop_export").rows  # noqa: S608 (constants)
    return [tuple(map(_comparable, row)) for row in rows]


def _headers(headers: Any) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers or ()}


def _comparable(value: Any) -> Any:
    if isinstance(value, datetime):
        return _epoch_ms(value)
    return Decimal(str(value)) if isinstance(value, float) else value


def _epoch_ms(value: datetime) -> int:
    return round(value.timestamp() * 1000)
