"""`hadoop_export` on Spark: records parsed in Python, rows written by Spark, dead letters by the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.apps.records import PoisonRecordError
from storekeeper.changelog.position import Position
from storekeeper.engine.errors import errors_of_tasks
from storekeeper.engine.runtime.checkpoint import SparkCheckpoint
from storekeeper.engine.runtime.sink_metrics import Written
from storekeeper.engine.runtime.stream import Stream, StreamContext, read_stream
from storekeeper.errors import ConfigurationError
from storekeeper.locations import Location
from storekeeper.samples.hadoop_export.letters import LETTER_COLUMNS, WRITTEN_DDL, LetterWriter
from storekeeper.samples.hadoop_export.spec import EXPORT
from storekeeper.samples.hadoop_export.table import COLUMNS, ExportTable
from storekeeper.samples.records import topics
from storekeeper.samples.records.masked import HadoopRecord, parse_hadoop_record
from storekeeper.samples.records.money import to_units
from storekeeper.snapshots.columns import arrow_type
from storekeeper.snapshots.delta_log import is_table

if TYPE_CHECKING:
    from pyspark.sql import Column

TRIGGER_INTERVAL_MS = 5000
"""Each batch is a commit to the table, so there are few."""
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
        PoisonRecordError: the record is not a masked line item.
    """
    record = parse_hadoop_record(key, value, max_record_bytes=max_record_bytes)
    day = record.created_time_ms // _DAY_MS
    return ExportRow(record, to_units(record.item_price), to_units(record.total_value), day)


_ON_THE_WAY = {"decimal(18,4)": "bigint", "date": "int"}
"""The types of `ExportRow` until the write, by those of the table."""
_POISON = {
    "_timestamp_ms": "bigint",
    "_key": "binary",
    "_value": "binary",
    "_error_class": "string",
    "_error": "string",
}
_PARSED_TYPES = {name: _ON_THE_WAY.get(kind, kind) for name, kind in COLUMNS.items()} | _POISON
_PARSED = pa.schema([(name, arrow_type(kind)) for name, kind in _PARSED_TYPES.items()])
_PARSED_DDL = ", ".join(f"{name} {kind}" for name, kind in _PARSED_TYPES.items())
_PLACE_COLUMN = list(COLUMNS).index("_partition")


def open_stream(context: StreamContext) -> Stream:
    """Masked line items in; rows of the table and dead letters out.

    Raises:
        ConfigurationError: the table is gone, or elsewhere: see `check_table_is_there`.
    """
    settings = context.settings
    check_table_is_there(settings.delta_table(EXPORT.staged_name), context.checkpoint)
    records = read_stream(context.spark, settings, topics.HADOOP_SINK)
    source = records.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"))
    table = ExportTable(context.spark, settings.delta_table(EXPORT.staged_name))
    return Stream(source, Exporter(table, context), trigger_interval_ms=TRIGGER_INTERVAL_MS)


def check_table_is_there(table: Location, checkpoint: SparkCheckpoint) -> None:
    """Refuses an empty place for a table whose first lines the checkpoint has passed: they would be missing for good.

    Raises:
        ConfigurationError: there is no table, and the checkpoint has a committed batch.
    """
    if checkpoint.last_committed_batch() is not None and not is_table(table):
        msg = (
            f"the export has begun, and there is no table at {table}: copy the table there or correct tables_uri. To "
            f"write it again from the topic, remove {checkpoint.path}"
        )
        raise ConfigurationError(msg)


class Exporter:
    """Writes batches to the table. Its only state between them is the position in the table's newest commit."""

    def __init__(self, table: ExportTable, context: StreamContext) -> None:
        self._table = table
        self._context = context
        self._letters = LetterWriter(context)
        self._progress = table.progress()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch's dead letters, then its new rows."""
        settings = self._context.settings
        parsing = partial(parse_batches, max_record_bytes=settings.max_record_bytes)
        fresh = batch.where(~_is_exported(self._progress, topics.HADOOP_SINK))
        parsed = fresh.mapInArrow(parsing, _PARSED_DDL).persist()
        try:
            with errors_of_tasks():
                writing = self._letters.batch(batch_id)
                written = parsed.select(*LETTER_COLUMNS).mapInArrow(writing, WRITTEN_DDL).collect()
            letters = sum(row["letters"] for row in written)
            if sum(row["rows"] for row in written) > letters:
                self._write_rows(parsed.where("_error is null"), batch_id)
        finally:
            parsed.unpersist()
        self._context.metrics.add(batch_id, Written(letters, sum(row["replayed"] for row in written)))

    def _write_rows(self, items: DataFrame, batch_id: int) -> None:
        progress = self._progress.merged(self._context.checkpoint.end_position(batch_id))
        # All rows of a day in one task, and so in one file.
        rows = items.repartition("day").select(*(_column(name, kind) for name, kind in COLUMNS.items()))
        self._table.append(rows, generation=self._context.settings.generation, batch_id=batch_id, progress=progress)
        self._progress = progress


def _is_exported(progress: Position, topic: str) -> Column:
    """Whether the table already has a record: it is below the table's position."""
    reached = progress.offsets.get(topic, {})
    below = [(F.col("partition") == partition) & (F.col("offset") < offset) for partition, offset in reached.items()]
    return reduce(or_, below, F.lit(False))


def _column(name: str, kind: str) -> Column:
    if name == "day":
        return F.date_from_unix_date("day").alias("day")
    if kind.startswith("decimal"):
        return (F.col(name).cast("decimal(18,0)") * F.expr("0.0001")).cast(kind).alias(name)
    return F.col(name)


def parse_batches(batches: Iterable[pa.RecordBatch], *, max_record_bytes: int) -> Iterator[pa.RecordBatch]:
    """Runs `export_row` on Arrow batches of (key, value, partition, offset, timestamp_ms)."""
    for batch in batches:
        items: list[tuple[object, ...]] = []
        poison: list[tuple[object, ...]] = []
        for key, value, partition, offset, time_ms in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            try:
                row = export_row(key, value, max_record_bytes=max_record_bytes)
            except PoisonRecordError as error:
                poison.append((partition, offset, time_ms, key, value, type(error).__name__, str(error)))
            else:
                items.append((*_item(row), partition, offset))
        if items:
            yield _batch(items, first_column=0)
        if poison:
            yield _batch(poison, first_column=_PLACE_COLUMN)


_plain_fields = HadoopRecord.__struct_fields__[:-3]


def _item(row: ExportRow) -> tuple[object, ...]:
    record = row.record
    fields = (getattr(record, name) for name in _plain_fields)
    return (*fields, row.item_price_units, record.item_qty, row.total_value_units, row.day)


def _batch(rows: list[tuple[object, ...]], *, first_column: int) -> pa.RecordBatch:
    """Rows of some neighbouring columns; the others are null."""
    filled = dict(enumerate(zip(*rows, strict=True), start=first_column))
    arrays = [
        pa.array(filled[index], field.type) if index in filled else pa.nulls(len(rows), field.type)
        for index, field in enumerate(_PARSED)
    ]
    return pa.record_batch(arrays, schema=_PARSED)
