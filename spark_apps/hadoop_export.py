"""Masked line items of topic `hadoop-sink` into the Delta table `hadoop_export`, each exactly once."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from quality.hadoop_export import EXPORT
from spark_apps.records.masked import HadoopRecord, parse_hadoop_record
from spark_apps.records.money import to_units
from spark_apps.records.topics import HADOOP_SINK
from storekeeper import AppSettings, table_app

_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()
_as_written = HadoopRecord.__struct_fields__[:-3]


def export_row(key: bytes | None, value: bytes | None, settings: AppSettings) -> tuple[object, ...]:
    """The row of a record: its fields, prices with four decimals, and the day of its time in UTC.

    Raises:
        PoisonRecordError: the record is not a masked line item.
    """
    record = parse_hadoop_record(key, value, max_record_bytes=settings.max_record_bytes)
    return (
        *(getattr(record, name) for name in _as_written),
        _money(record.item_price),
        record.item_qty,
        _money(record.total_value),
        date.fromordinal(_EPOCH + record.created_time_ms // _DAY_MS),
    )


def _money(amount: float) -> Decimal:
    return Decimal(to_units(amount)).scaleb(-4)


HADOOP_EXPORT = table_app("hadoop_export", HADOOP_SINK, EXPORT, export_row, title="Masked line items to Delta")
