"""Turns a masked line item into a row of the table."""

from __future__ import annotations

from typing import NamedTuple

from spark_apps.apps.records.masked import HadoopRecord, parse_hadoop_record
from spark_apps.apps.records.money import to_units

_DAY_MS = 86_400_000


class ExportRow(NamedTuple):
    """A line item on its way to the table. Prices in 1/10,000; `day` counts from 1970-01-01, in UTC.

    A named tuple because a frozen dataclass takes three times as long to make.
    """

    record: HadoopRecord
    item_price_units: int
    total_value_units: int
    day: int


def export_row(key: bytes | None, value: bytes | None, *, max_record_bytes: int) -> ExportRow:
    """The row of a record.

    Raises:
        PoisonRecordError: the record is no masked line item.
    """
    record = parse_hadoop_record(key, value, max_record_bytes=max_record_bytes)
    day = record.created_time_ms // _DAY_MS
    return ExportRow(record, to_units(record.item_price), to_units(record.total_value), day)
