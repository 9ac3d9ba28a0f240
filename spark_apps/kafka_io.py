"""Kafka as Spark reads and writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_apps.settings import AppSettings
from spark_apps.sink.batch_sink import BatchSink
from spark_apps.sink.records import BY_KEY, MapRecords, SinkRecord
from spark_apps.stream import StreamContext
from spark_apps.topics import Topics
from state.changelog.position import Position

HEADERS_TYPE = "array<struct<key: string, value: binary>>"
"""The Spark SQL type of a record's headers."""

_EARLIEST = -2
"""What Spark's Kafka source calls the beginning of a partition."""
_FETCH_WAIT_MS = 50
"""A task that reads up to the mark of a transaction, with nothing behind it, waits so long for nothing."""
_PLAIN_COLUMNS = ("topic", "key", "value")
_RECORD_COLUMNS = (*_PLAIN_COLUMNS, "headers", "partition")


def read_stream(
    spark: SparkSession, settings: AppSettings, *topics: str, headers: bool = False, start: Position | None = None
) -> DataFrame:
    """The records of topics as a stream, at the first start from `start`, or from their beginning.

    A partition that `start` doesn't name is read from its beginning.

    Rows are Spark's Kafka rows: key, value, topic, partition, offset, timestamp and, if wanted, headers. A batch holds
    at most `max_offsets_per_trigger` of them. One task reads one partition, in the order of offsets. What a producer
    has not committed is not seen.
    """
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", _starting_offsets(settings, topics, start))
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
    )


def _starting_offsets(settings: AppSettings, topics: tuple[str, ...], start: Position | None) -> str:
    if start is None:
        return "earliest"
    known = Topics(settings.kafka_bootstrap)
    # Spark wants every partition named.
    begins = {topic: start.offsets.get(topic, {}) for topic in topics}
    offsets = {
        topic: {str(partition): own.get(partition, _EARLIEST) for partition in known.partitions(topic)}
        for topic, own in begins.items()
    }
    return orjson.dumps(offsets).decode()


def write_records(
    batch: DataFrame,
    batch_id: int,
    context: StreamContext,
    *,
    sink: str = "records",
    by_key: bool = False,
    records_of: MapRecords | None = None,
) -> None:
    """Writes a batch's rows to Kafka, once each for `read_committed` consumers, and returns when all are there.

    Columns: topic string, key binary, value binary, headers array<struct<key string, value binary>>, and optionally
    partition int, where null lets the key decide (murmur2, as the Java client does). A null value is a tombstone.

    A batch that is run again after a crash is written by those of its tasks that had not committed. For that, each row
    must come to the same task as before, and a task's rows must give the same bytes:

    - by default rows are shuffled by topic and key, which is always right and keeps a key's order if its rows come
      from one task;
    - `by_key=True` says that they are where they belong already, because nothing but a map stands between them and
      Spark's state (an aggregation, `transformWithState`): their task is that of their group.

    `records_of` makes the records of such rows; `records_of_rows` if it isn't given.

    For a map of source rows `write_mapped` is faster than either. An app that writes in several places of its
    `process` names them by `sink`; the names must not change between a crash and the next start.

    Raises:
        StateError: it can't be written; nothing of a task that failed is visible.
    """
    if not by_key:
        batch = batch.repartition(context.settings.shuffle_partitions, "topic", "key")
    columns = [name for name in _RECORD_COLUMNS if name in batch.columns]
    _sink(context, sink, source_slots=False).write(batch.select(*columns), batch_id, records_of or records_of_rows)


def write_mapped(
    batch: DataFrame,
    records_of: MapRecords,
    batch_id: int,
    context: StreamContext,
    *,
    sink: str = "records",
    by_key: bool = False,
) -> None:
    """Writes what `records_of` makes of each task's rows, without a way back through the JVM. See `write_records`.

    `records_of` runs in Spark's Python workers. By default `batch` holds rows of `read_stream`, with any of its columns
    but `partition` (and `topic`, of several) among them, and nothing that moved them between tasks. With `by_key` its
    rows come out of Spark's state, with nothing but a map between.
    """
    _sink(context, sink, source_slots=not by_key).write(batch, batch_id, records_of)


def _sink(context: StreamContext, name: str, *, source_slots: bool) -> BatchSink:
    return context.sinks.setdefault(name, BatchSink(context, name, source_slots))


def records_of_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[SinkRecord]:
    """The records in rows (topic, key, value, headers, partition), of which the last two may be left out."""
    for batch in batches:
        columns = {name: cells(batch.column(name)) for name in batch.schema.names if name in _PLAIN_COLUMNS}
        count = batch.num_rows
        headers = batch.column("headers").to_pylist() if "headers" in batch.schema.names else [None] * count
        partitions = batch.column("partition").to_pylist() if "partition" in batch.schema.names else [None] * count
        for topic, key, value, listed, partition in zip(
            columns["topic"], columns["key"], columns["value"], headers, partitions, strict=True
        ):
            pairs = [(header["key"], header["value"]) for header in listed] if listed else None
            yield topic, key, value, pairs, BY_KEY if partition is None else partition


def cells(column: pa.Array) -> list[Any]:
    """A column's values as Python's own, None for null: four times as fast as Arrow's way for texts and bytes."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type) or not column.null_count:
        listed: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return listed
    return column.to_pylist()
