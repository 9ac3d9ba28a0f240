"""A processor on Spark: its tasks' state is a map in Spark's own state store, committed with the batch.

    Kafka rows -> packed, many in a row -> grouped by source partition -> `run_task` in transformWithState -> unpacked

One group is one partition of the source topics, as one task of Kafka Streams is. So stream time is the partition's own,
and what is late doesn't depend on how batches fell. A call to the state store costs about 0.1 ms: each key is read and
written once a batch.

A generation that begins with another's content gets the tasks' state in its first batch, as rows between those of Kafka
(see `spark_apps.processor.seeding`), and writes the store's rows to its changelog before that batch's own changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from spark_apps.dead_letters import counted
from spark_apps.generations.catalog import written_stores_of
from spark_apps.generations.outputs import as_generation
from spark_apps.kafka_io import HEADERS_TYPE, read_stream, records_of_rows, write_records
from spark_apps.processor.packing import packed, unpack_outputs, unpack_sources
from spark_apps.processor.plans import task_plan
from spark_apps.processor.processor import Processor
from spark_apps.processor.records import STREAM_TIME_KEY, OutputRecord, SourceRecord, told_time
from spark_apps.processor.seeding import PLACED_DDL, STATE_DDL, STATE_VARIABLE, placed_rows, unpack_state
from spark_apps.processor.state import MemoryTaskState
from spark_apps.processor.task import TaskPlan, run_task
from spark_apps.processor.timers import stream_time_ms
from spark_apps.progress import STREAM_TIME
from spark_apps.spec import AppSpec, StoreSpec
from spark_apps.stream import SEED_STORE, Stream, StreamContext
from spark_apps.topics import Topics
from state.changelog.headers import ChangelogHeaders

if TYPE_CHECKING:
    from pyspark.sql import Column

_PACKED = pa.schema([("partition", pa.int32()), ("records", pa.binary())])
_PACKED_DDL = "partition int, records binary"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_OUTPUT = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("headers", _HEADERS),
    ]
)
_OUTPUT_DDL = f"topic string, key binary, value binary, partition int, headers {HEADERS_TYPE}"


def open_processor_stream(
    context: StreamContext, spec: AppSpec, processor: Processor, *, keeps_state: bool = True
) -> Stream:
    """The stream of an app that is a `Processor`.

    With `keeps_state` False its tasks begin each batch without state, time or timers, which is much faster: right for a
    processor that uses none of these.
    """
    settings = context.settings
    if context.generation is not None:
        spec = replace(spec, stores=written_stores_of(spec, context.generation))
    changelogs = {store.changelog_topic: store for store in reversed(spec.stores)}
    topics = Topics(settings.kafka_bootstrap)
    plan = task_plan(spec, settings, {topic: len(topics.partitions(topic)) for topic in changelogs})
    packed_rows = _packed_rows(context, plan)
    if keeps_state:
        task = SeededTaskProcessor(processor, plan) if context.is_seeded else TaskProcessor(processor, plan)
        outputs = packed_rows.groupBy("partition").transformWithState(task, "records binary", "Append", "None")
    else:
        outputs = (
            packed_rows.where(F.col("records").isNotNull())
            .select("records")
            .mapInArrow(partial(run_without_state, processor=processor, plan=plan), "records binary")
        )
    unpacked = outputs.mapInArrow(unpack_batches, _OUTPUT_DDL)
    skipped = F.col("topic").isNull() & F.col("key").isNull()
    poison = skipped | F.col("topic").isin(*plan.dead_letters.values())
    timed = unpacked.observe(STREAM_TIME, _newest_time().alias(STREAM_TIME))
    frame = counted(timed, poison).where(F.col("topic").isNotNull())

    def process(batch: DataFrame, batch_id: int) -> None:
        headers = F.col("headers")
        for topic, store in changelogs.items():
            headers = F.when(F.col("topic") == topic, _changelog_headers(context, store, batch_id)).otherwise(headers)
        records_of = as_generation(records_of_rows, context.generation, batch_id)
        if batch_id == 0 and context.is_seeded:
            # First, so that what the batch says of a key is the newer.
            rows = _seed_rows(context, spec, plan).withColumn("headers", headers)
            write_records(rows, batch_id, context, sink="seed", records_of=records_of)
        rows = batch.withColumn("headers", headers)
        write_records(rows, batch_id, context, by_key=keeps_state, records_of=records_of)

    return Stream(frame, process)


def _packed_rows(context: StreamContext, plan: TaskPlan) -> DataFrame:
    """The input, packed; of a generation that begins with another's content, and before that, the tasks' state."""
    packed_rows = (
        read_stream(context.spark, context.settings, *plan.sources, start=context.start)
        .select("topic", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
        .mapInArrow(pack_batches, _PACKED_DDL)
    )
    if not context.is_seeded:
        return packed_rows
    states = context.spark.readStream.schema(STATE_DDL).parquet(str(context.seed_state_dir))
    # They stay part of the query for as long as the generation lives, and Kafka is its first source.
    return packed_rows.unionByName(states, allowMissingColumns=True)


def _seed_rows(context: StreamContext, spec: AppSpec, plan: TaskPlan) -> DataFrame:
    """The rows of the stores that a generation begins with, in version 1, as records to be written."""
    rows = context.spark.read.parquet(str(context.seed_dir)).select(SEED_STORE, "key", "value")
    kinds = {store.name: store.kind for store in spec.stores}
    placed = rows.mapInArrow(partial(placed_rows, kinds=kinds, plan=plan), PLACED_DDL)
    return placed.withColumn("headers", F.array().cast(HEADERS_TYPE))


class TaskProcessor(StatefulProcessor):
    """Runs the task of each source partition. Its rows are packed `SourceRecord`s in, packed `OutputRecord`s out."""

    def __init__(self, processor: Processor, plan: TaskPlan) -> None:
        self._processor = processor
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the task's state."""
        self._map = handle.getMapState(STATE_VARIABLE, "key binary", "value binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Runs one task on one batch."""
        del key, timerValues
        records = [record for row in rows for record in unpack_sources(row.records)]
        state = _MapTaskState(self._map)
        output = run_task(self._processor, self._plan, state, records)
        time_ms = stream_time_ms(state)
        if time_ms >= 0:
            output.append(told_time(time_ms))
        yield from (Row(records=part) for part in packed(output))

    def close(self) -> None:
        """Nothing to close."""


class SeededTaskProcessor(TaskProcessor):
    """The same, of a generation that begins with another's state: parts of it come between the records."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Takes the state over, then runs the task on the records."""
        return super().handleInputRows(key, iter(self._records_alone(rows)), timerValues)

    def _records_alone(self, rows: Iterator[Any]) -> list[Any]:
        records = []
        for row in rows:
            if row.state is None:
                records.append(row)
            else:
                for key, value in unpack_state(row.state):
                    self._map.updateValue((key,), (value,))
        return records


class _MapTaskState:
    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        found = self._rows.getValue((key,))
        return None if found is None else bytes(found[0])

    def put(self, key: bytes, value: bytes) -> None:
        self._rows.updateValue((key,), (value,))

    def remove(self, key: bytes) -> None:
        self._rows.removeKey((key,))


def pack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs Arrow batches of (topic, partition, offset, timestamp_ms, key, value)."""
    for batch in batches:
        by_partition: dict[int, list[tuple[object, ...]]] = {}
        for record in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            by_partition.setdefault(record[1], []).append(record)
        rows = [(partition, part) for partition, records in by_partition.items() for part in packed(records)]
        yield _record_batch(rows, _PACKED)


def run_without_state(
    batches: Iterable[pa.RecordBatch], *, processor: Processor, plan: TaskPlan
) -> Iterator[pa.RecordBatch]:
    """Runs tasks that keep no state on packed rows. A Spark task has all of a partition's rows of a batch."""
    tasks: dict[int, list[SourceRecord]] = {}
    for batch in batches:
        for part in batch.column(0).to_pylist():
            for record in unpack_sources(part):
                tasks.setdefault(record.partition, []).append(record)
    schema = pa.schema([("records", pa.binary())])
    for _, records in sorted(tasks.items()):
        output = run_task(processor, plan, MemoryTaskState(), records)
        yield _record_batch([(part,) for part in packed(output)], schema)


def unpack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpacks what tasks gave out."""
    for batch in batches:
        for part in batch.column(0).to_pylist():
            yield _record_batch([_plain(record) for record in unpack_outputs(part)], _OUTPUT)


def _newest_time() -> Column:
    is_time = F.col("topic").isNull() & (F.col("key") == F.lit(STREAM_TIME_KEY))
    return F.max(F.when(is_time, F.col("value").cast("string").cast("long")))


def _plain(record: OutputRecord) -> tuple[object, ...]:
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return (*record[:4], headers)


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _changelog_headers(context: StreamContext, store: StoreSpec, batch_id: int) -> Column:
    headers = ChangelogHeaders(
        app=store.app,
        store=store.name,
        generation=context.settings.generation,
        batch_id=batch_id,
        source=context.checkpoint.source_ranges(batch_id),
        schema_version=store.schema_version,
    )
    pairs = [
        F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
        for name, value in headers.encode()
    ]
    return F.array(*pairs).cast(HEADERS_TYPE)
