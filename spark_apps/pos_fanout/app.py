"""`pos_fanout` on Spark: one pass over the invoices in Python, one write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.dead_letters import counted, dead_letter_headers, header
from spark_apps.kafka_io import read_stream, write_records
from spark_apps.pos_fanout.spec import POS_FANOUT
from spark_apps.pos_fanout.topology import FanoutTopics, OutputRecord, fan_out
from spark_apps.records.poison import PoisonRecordError
from spark_apps.stream import Stream, StreamContext

_OUTPUT = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("source", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("error_class", pa.string()),
        ("error_message", pa.string()),
    ]
)
_OUTPUT_DDL = (
    "topic string, key binary, value binary, source string, partition int, offset bigint, timestamp_ms bigint, "
    "error_class string, error_message string"
)
_RECORD_COLUMNS = len(OutputRecord._fields)


def open_stream(context: StreamContext) -> Stream:
    """Invoices in; shipments, masked line items and dead letters out."""
    settings = context.settings
    topics = FanoutTopics(settings.topic_pos, settings.topic_shipment, settings.topic_hadoop_sink)
    fanned = partial(
        fan_out_batches,
        topics=topics,
        dead_letters=settings.pos_dead_letters,
        max_record_bytes=settings.max_record_bytes,
    )
    poison = F.col("error_class").isNotNull()
    fanned_out = (
        read_stream(context.spark, settings, settings.topic_pos)
        .select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms"))
        .mapInArrow(fanned, _OUTPUT_DDL)
    )
    headers = F.when(poison, dead_letter_headers(POS_FANOUT.name, settings.topic_pos)).otherwise(
        F.array(header("source", F.col("source")))
    )
    frame = counted(fanned_out, poison).select("topic", "key", "value", headers.alias("headers"))

    def process(batch: DataFrame, batch_id: int) -> None:
        write_records(batch, batch_id, context)

    return Stream(frame, process)


def fan_out_batches(
    batches: Iterable[pa.RecordBatch], *, topics: FanoutTopics, dead_letters: str, max_record_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Runs `fan_out` on Arrow batches of (key, value, partition, offset, timestamp_ms)."""
    for batch in batches:
        records: list[OutputRecord] = []
        poison: list[tuple[object, ...]] = []
        for key, value, partition, offset, timestamp_ms in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            try:
                records += fan_out(key, value, partition, offset, topics=topics, max_record_bytes=max_record_bytes)
            except PoisonRecordError as error:
                whence = partition, offset, timestamp_ms
                poison.append((dead_letters, key, value, None, *whence, type(error).__name__, str(error)))
        if records:
            yield _output_batch(records, _RECORD_COLUMNS)
        if poison:
            yield _output_batch(poison, len(_OUTPUT))


def _output_batch(rows: list[OutputRecord] | list[tuple[object, ...]], filled: int) -> pa.RecordBatch:
    """Rows of the first `filled` output columns; the others are null."""
    columns = list(zip(*rows, strict=True))
    arrays = [
        pa.array(columns[index], field.type) if index < filled else pa.nulls(len(rows), field.type)
        for index, field in enumerate(_OUTPUT)
    ]
    return pa.record_batch(arrays, schema=_OUTPUT)
