"""What the rows of a batch are reconciled with: the records that they were made from, read again from their topic."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from spark_apps.records.masked import parse_hadoop_record
from spark_apps.records.money import to_units
from storekeeper import AppSettings, PoisonRecordError


def line_item(key: bytes | None, value: bytes | None, settings: AppSettings) -> Mapping[str, Any] | None:
    """Store and total of the line item in a record; None if it holds none, and is a dead letter."""
    try:
        line = parse_hadoop_record(key, value, max_record_bytes=settings.max_record_bytes)
    except PoisonRecordError:
        return None
    return {"StoreID": line.store_id, "TotalValue": Decimal(to_units(line.total_value)).scaleb(-4)}
