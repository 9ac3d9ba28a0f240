"""`hadoop_export` on Spark: records parsed in Python, duplicates dropped and rows written by Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.dead_letters import counted, dead_letter_headers
from spark_apps.hadoop_export.progress import ExportProgress, Place
from spark_apps.hadoop_export.spec import HADOOP_EXPORT, TABLE
from spark_apps.hadoop_export.table import COLUMNS, ExportTable
from spark_apps.hadoop_export.topology import ExportRow, export_row
from spark_apps.kafka_io import read_stream, write_records
from spark_apps.records.masked import HadoopRecord
from spark_apps.records.poison import PoisonRecordError
from spark_apps.stream import Stream, StreamContext

if TYPE_CHECKING:
    from pyspark.sql import Column

_ITEM = [
    ("InvoiceNumber", pa.string(), "string"),
    ("CreatedTime", pa.int64(), "bigint"),
    ("StoreID", pa.string(), "string"),
    ("PosID", pa.string(), "string"),
    ("CustomerType", pa.string(), "string"),
    ("PaymentMethod", pa.string(), "string"),
    ("DeliveryType", pa.string(), "string"),
    ("City", pa.string(), "string"),
    ("State", pa.string(), "string"),
    ("PinCode", pa.string(), "string"),
    ("ItemCode", pa.string(), "string"),
    ("ItemDescription", pa.string(), "string"),
    ("ItemPrice", pa.int64(), "bigint"),
    ("ItemQty", pa.int64(), "bigint"),
    ("TotalValue", pa.int64(), "bigint"),
    ("day", pa.int32(), "int"),
    ("sink_partition", pa.int32(), "int"),
    ("source", pa.string(), "string"),
    ("source_offset", pa.int64(), "bigint"),
    ("source_line", pa.int64(), "bigint"),
]
_POISON = [
    ("key", pa.binary(), "binary"),
    ("value", pa.binary(), "binary"),
    ("partition", pa.int32(), "int"),
    ("offset", pa.int64(), "bigint"),
    ("timestamp_ms", pa.int64(), "bigint"),
    ("error_class", pa.string(), "string"),
    ("error_message", pa.string(), "string"),
]
_PARSED = pa.schema([(name, kind) for name, kind, _ in _ITEM + _POISON])
_PARSED_DDL = ", ".join(f"{name} {kind}" for name, _, kind in _ITEM + _POISON)
_PLACE = ("sink_partition", "source", "source_offset", "source_line")
_IS_POISON = "error_class is not null"
_SOURCE = "cast(element_at(filter(headers, header -> header.key = 'source'), 1).value as string)"


def open_stream(context: StreamContext) -> Stream:
    """Masked line items in; rows of the table and dead letters out."""
    settings = context.settings
    parsing = partial(parse_batches, max_record_bytes=settings.max_record_bytes)
    parsed = (
        read_stream(context.spark, settings, settings.topic_hadoop_sink, headers=True)
        .select(
            "key",
            "value",
            F.expr(_SOURCE).alias("source"),
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp_ms"),
        )
        .mapInArrow(parsing, _PARSED_DDL)
    )
    table = ExportTable(context.spark, settings.delta_table(TABLE))
    return Stream(
        counted(parsed, F.expr(_IS_POISON)),
        Exporter(table, context),
        trigger_interval_ms=settings.export_interval_ms,
    )


class Exporter:
    """Writes batches to the table. What it remembers between them is what the table's newest commit says."""

    def __init__(self, table: ExportTable, context: StreamContext) -> None:
        self._table = table
        self._context = context
        self._settings = context.settings
        self._progress = table.progress()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch's dead letters, then its new rows."""
        batch = batch.where(F.expr(_IS_POISON) | _is_behind(self._progress)).persist()
        try:
            newest = batch.groupBy("sink_partition", "source").agg(F.max(F.struct("source_offset", "source_line")))
            found = newest.collect()
            places = [(partition, Place(source, *last)) for partition, source, last in found if source is not None]
            if len(places) < len(found):
                self._write_dead_letters(batch.where(_IS_POISON), batch_id)
            if places:
                self._write_rows(batch.where(f"not ({_IS_POISON})"), batch_id, self._progress.advanced(places))
        finally:
            batch.unpersist()

    def _write_dead_letters(self, poison: DataFrame, batch_id: int) -> None:
        topic = self._settings.topic_hadoop_sink
        headers = dead_letter_headers(HADOOP_EXPORT.name, topic).alias("headers")
        dead = F.lit(self._settings.hadoop_sink_dead_letters).alias("topic")
        write_records(poison.select(dead, "key", "value", headers), batch_id, self._context)

    def _write_rows(self, items: DataFrame, batch_id: int, progress: ExportProgress) -> None:
        rows = (
            # All rows of a day in one task, and so in one file.
            items.repartition("day")
            .dropDuplicates(["day", *_PLACE])
            .select(*(_column(name, kind) for name, kind in COLUMNS.items()))
        )
        self._table.append(rows, generation=self._settings.generation, batch_id=batch_id, progress=progress)
        self._progress = progress


def _is_behind(progress: ExportProgress) -> Column:
    """Whether a row comes from behind the place that its sink partition and source had reached."""
    entries = [
        part
        for partition, sources in progress.places.items()
        for source, (offset, line) in sources.items()
        for part in (F.lit(f"{partition}/{source}"), F.struct(F.lit(offset).cast("bigint"), F.lit(line).cast("bigint")))
    ]
    if not entries:
        return F.lit(True)
    last = F.try_element_at(F.create_map(*entries), F.concat_ws("/", "sink_partition", "source"))
    return last.isNull() | (F.struct("source_offset", "source_line") > last)


def _column(name: str, kind: str) -> Column:
    if name == "day":
        return F.date_from_unix_date("day").alias("day")
    if kind.startswith("decimal"):
        return (F.col(name).cast("decimal(18,0)") * F.expr("0.0001")).cast(kind).alias(name)
    return F.col(name.removeprefix("_")).alias(name)


def parse_batches(batches: Iterable[pa.RecordBatch], *, max_record_bytes: int) -> Iterator[pa.RecordBatch]:
    """Runs `export_row` on Arrow batches of (key, value, source, partition, offset, timestamp_ms)."""
    for batch in batches:
        items: list[tuple[object, ...]] = []
        poison: list[tuple[object, ...]] = []
        for key, value, source, partition, *whence in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            try:
                row = export_row(key, value, source, max_record_bytes=max_record_bytes)
            except PoisonRecordError as error:
                poison.append((key, value, partition, *whence, type(error).__name__, str(error)))
            else:
                items.append(_item(row, partition))
        if items:
            yield _batch(items, first_column=0)
        if poison:
            yield _batch(poison, first_column=len(_ITEM))


_plain_fields = HadoopRecord.__struct_fields__[:-3]


def _item(row: ExportRow, partition: int) -> tuple[object, ...]:
    record = row.record
    return (
        *(getattr(record, name) for name in _plain_fields),
        row.item_price_units,
        record.item_qty,
        row.total_value_units,
        row.day,
        partition,
        *row.place,
    )


def _batch(rows: list[tuple[object, ...]], *, first_column: int) -> pa.RecordBatch:
    """Rows of some neighbouring columns; the others are null."""
    filled = dict(enumerate(zip(*rows, strict=True), start=first_column))
    arrays = [
        pa.array(filled[index], field.type) if index in filled else pa.nulls(len(rows), field.type)
        for index, field in enumerate(_PARSED)
    ]
    return pa.record_batch(arrays, schema=_PARSED)
