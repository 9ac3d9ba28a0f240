"""A table sink on Spark: rows made in Python and written by Spark, dead letters written by the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame

from storekeeper.apps.records import PoisonRecordError
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import PLACE, TableSink
from storekeeper.delta_files import is_table
from storekeeper.engine.errors import errors_of_tasks
from storekeeper.engine.kafka_rows import kafka_rows
from storekeeper.engine.runtime.batch_ends import TopicGroup
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.planner import Planner
from storekeeper.engine.runtime.session import session_of_batches
from storekeeper.engine.runtime.sink_metrics import Written, decode_outcome
from storekeeper.engine.runtime.stream import Stream, StreamContext
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.table_sink.exact_array import exact_array
from storekeeper.engine.table_sink.letters import LETTER_COLUMNS, WRITTEN_DDL, LetterWriter
from storekeeper.engine.table_sink.staged import StagedTable
from storekeeper.errors import ConfigurationError
from storekeeper.locations import Location
from storekeeper.schemas.arrow_types import arrow_type
from storekeeper.topology.failures import is_of_record, reason_of
from storekeeper.topology.records import RecordFields

TRIGGER_INTERVAL_MS = 5000
"""Each batch is a commit to the table, so there are few."""
_POISON = {
    "_timestamp_ms": "bigint",
    "_key": "binary",
    "_value": "binary",
    "_error_class": "string",
    "_error": "string",
}
_Row = tuple[object, ...]
_Made = tuple[RecordFields, _Row]
"""A record, and the row that was made of it."""


def open_table_stream(context: StreamContext, sink: TableSink) -> Stream:
    """Records of the topic in; rows of the table and dead letters out.

    Raises:
        ConfigurationError: the table is gone, or elsewhere: see `check_table_is_there`.
    """
    settings = context.settings
    path = settings.delta_table(sink.table.staged_name)
    check_table_is_there(path, context.checkpoint)
    groups = [TopicGroup((sink.topic,), meet=False)]
    planner = Planner(Topics(settings.kafka), groups, most=settings.max_offsets_per_trigger)
    table = StagedTable(session_of_batches(context.spark), context.spec.name, sink.table, path)
    return Stream(planner, TableWriter(table, sink, context), trigger_interval_ms=TRIGGER_INTERVAL_MS)


def check_table_is_there(table: Location, checkpoint: BatchCheckpoint) -> None:
    """Refuses an empty place for a table whose first rows the checkpoint has passed: they would be missing for good.

    Raises:
        ConfigurationError: there is no table, and the checkpoint has a committed batch.
    """
    if checkpoint.last_committed_batch() is not None and not is_table(table):
        raise ConfigurationError(
            f"the export has begun, and there is no table at {table}: copy the table there or correct tables_uri. To "
            f"write it again from the topic, remove {checkpoint.path}"
        )


class TableWriter:
    """Writes batches to the table. Its only state between them is the position in the table's newest commit."""

    def __init__(self, table: StagedTable, sink: TableSink, context: StreamContext) -> None:
        self._table = table
        self._sink = sink
        self._context = context
        self._letters = LetterWriter(context, sink.topic)
        self._progress = table.progress()

    def __call__(self, batch_id: int) -> None:
        """Writes a batch's dead letters, then its new rows."""
        topic, settings = self._sink.topic, self._context.settings
        reached = self._progress.offsets.get(topic, {})
        ranges = {
            partition: (max(start, reached.get(partition, 0)), end)
            for partition, (start, end) in self._context.checkpoint.source_ranges(batch_id)[topic].items()
        }
        parsing = partial(parsed_rows, sink=self._sink, settings=settings)
        ddl = ", ".join(f"{name} {kind}" for name, kind in _types(self._sink).items())
        parsed = kafka_rows(self._table.spark, settings.kafka, topic, ranges, make=parsing, ddl=ddl).persist()
        try:
            with errors_of_tasks():
                writing = self._letters.batch(batch_id)
                rows = parsed.select(*LETTER_COLUMNS).mapInArrow(writing, WRITTEN_DDL).collect()
            written = sum((decode_outcome(row["outcome"]) for row in rows), Written())
            if written.rows > written.dead_letters:
                self._write_rows(parsed.where("_error is null"), batch_id)
        finally:
            parsed.unpersist()
        self._context.wrote(batch_id, written)

    def _write_rows(self, items: DataFrame, batch_id: int) -> None:
        progress = self._progress.merged(self._context.checkpoint.end_position(batch_id))
        table = self._sink.table
        # All rows of a partition of the table in one task, and so in one file.
        together = items.repartition(*table.partition_by) if table.partition_by else items
        rows = together.select(*(column.name for column in table.columns))
        self._table.append(rows, progress)
        self._progress = progress


def parsed_rows(records: Iterable[RecordFields], *, sink: TableSink, settings: AppSettings) -> Iterator[pa.RecordBatch]:
    """The rows of records, then their dead letters: of those without a row, and of those whose row has no place.

    Args:
        records: the records.
        sink: what makes rows of them.
        settings: for the sink's `row`.

    Raises:
        Exception: a record is not to blame for it, as `is_of_record` has it.
    """
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in _types(sink).items()])
    place = len(sink.table.columns) - len(PLACE)
    made: list[_Made] = []
    letters: list[_Row] = []
    for record in records:
        try:
            made.append((record, _row_of(record, sink, settings)))
        except Exception as error:
            letters.append(_letter(record, error))
    rows, unfit = _fitting(made, schema, sink)
    if rows is not None:
        yield rows
    if letters := sorted(letters + unfit, key=itemgetter(slice(len(PLACE)))):
        yield _batch(letters, schema, first_column=place)


def _row_of(record: RecordFields, sink: TableSink, settings: AppSettings) -> _Row:
    """The values of the table's columns."""
    _, partition, offset, _, key, value, _ = record
    row = (*sink.row(key, value, settings), partition, offset)
    if len(row) != len(sink.table.columns):
        given, wanted = (size - len(PLACE) for size in (len(row), len(sink.table.columns)))
        raise PoisonRecordError(f"the row has {given} values, and the table {wanted} columns for them")
    return row


def _fitting(made: list[_Made], schema: pa.Schema, sink: TableSink) -> tuple[pa.RecordBatch | None, list[_Row]]:
    """The rows that fit their columns, None if there are none, and the dead letters of the others' records."""
    if not made:
        return None, []
    rows, unfit = [row for _, row in made], list[_Row]()
    try:
        return _batch(rows, schema, first_column=0), unfit
    except Exception as error:
        if not is_of_record(error):
            raise
    rows = _sifted(made, schema, sink, unfit)
    return (_batch(rows, schema, first_column=0) if rows else None), unfit


def _sifted(made: list[_Made], schema: pa.Schema, sink: TableSink, unfit: list[_Row]) -> list[_Row]:
    """The rows that fit, of records of which one has a row that doesn't; the dead letters of such go to `unfit`.

    It halves them, as rows that are converted together take much less time.
    """
    if len(made) == 1:
        ((record, row),) = made
        try:
            _check_fits(row, schema, sink)
        except Exception as error:
            unfit.append(_letter(record, error))
            return []
        return [row]
    fitting: list[_Row] = []
    for part in (made[: len(made) // 2], made[len(made) // 2 :]):
        rows = [row for _, row in part]
        try:
            _batch(rows, schema, first_column=0)
            fitting += rows
        except Exception as error:
            if not is_of_record(error):
                raise
            fitting += _sifted(part, schema, sink, unfit)
    return fitting


def _check_fits(row: _Row, schema: pa.Schema, sink: TableSink) -> None:
    for column, field, value in zip(sink.table.columns, schema, row, strict=False):
        try:
            exact_array([value], field.type)
        except Exception as error:
            if not is_of_record(error):
                raise
            # The text of Arrow's error may quote the value.
            why = f"a value of type {type(value).__name__} that is none ({type(error).__name__})"
            raise PoisonRecordError(f"column {column.name} is {column.sql_type}, and the row has {why}") from None


def _letter(record: RecordFields, error: Exception) -> _Row:
    """The dead letter of a record. Raises the error if the record is not to blame for it."""
    if not is_of_record(error):
        raise error
    _, partition, offset, time_ms, key, value, _ = record
    reason = reason_of(error).encode(errors="backslashreplace").decode()
    return partition, offset, time_ms, key, value, type(error).__name__, reason


def _types(sink: TableSink) -> dict[str, str]:
    """The types by name of the columns of parsed batches: those of the table, then those of dead letters."""
    return {column.name: column.sql_type for column in sink.table.columns} | _POISON


def _batch(rows: list[_Row], schema: pa.Schema, *, first_column: int) -> pa.RecordBatch:
    """Rows of some neighbouring columns; the others are null."""
    filled = dict(enumerate(zip(*rows, strict=True), start=first_column))
    arrays = [
        exact_array(filled[index], field.type) if index in filled else pa.nulls(len(rows), field.type)
        for index, field in enumerate(schema)
    ]
    return pa.record_batch(arrays, schema=schema)
