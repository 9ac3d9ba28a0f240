"""`pos_fanout` on Spark: one pass over the invoices in Python, from Spark's rows to Kafka's records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.dead_letters import dead_letter
from spark_apps.kafka_io import cells, read_stream, write_mapped
from spark_apps.pos_fanout.spec import POS_FANOUT
from spark_apps.pos_fanout.topology import FanoutTopics, fan_out, reached
from spark_apps.records.masked import CODE_DIGITS
from spark_apps.records.poison import PoisonRecordError
from spark_apps.sink.records import SinkRecord
from spark_apps.stream import Stream, StreamContext
from spark_apps.topics import Topics


def open_stream(context: StreamContext) -> Stream:
    """Invoices in; shipments, masked line items, purchases and dead letters out."""
    settings = context.settings
    records_of = partial(
        fan_out_rows,
        topics=FanoutTopics(
            settings.topic_pos, settings.topic_shipment, settings.topic_hadoop_sink, settings.topic_purchases
        ),
        purchase_partitions=len(Topics(settings.kafka_bootstrap).partitions(settings.topic_purchases)),
        dead_letters=settings.pos_dead_letters,
        max_record_bytes=settings.max_record_bytes,
        code_digits=settings.quality_code_digits,
    )
    rows = read_stream(context.spark, settings, settings.topic_pos).select(
        "key", "value", "partition", "offset", F.unix_millis("timestamp").alias("timestamp_ms")
    )

    def process(batch: DataFrame, batch_id: int) -> None:
        write_mapped(batch, records_of, batch_id, context)

    return Stream(rows, process)


def fan_out_rows(
    batches: Iterator[pa.RecordBatch],
    *,
    topics: FanoutTopics,
    purchase_partitions: int,
    dead_letters: str,
    max_record_bytes: int,
    code_digits: int = CODE_DIGITS,
) -> Iterator[SinkRecord]:
    """Runs `fan_out` on Arrow batches of (key, value, partition, offset, timestamp_ms), all of one partition."""
    records_of = partial(fan_out, topics=topics, max_record_bytes=max_record_bytes, code_digits=code_digits)
    last: tuple[int, int] | None = None
    for batch in batches:
        for key, value, partition, offset, timestamp_ms in zip(*map(cells, batch.columns), strict=True):
            try:
                yield from records_of(key, value, partition, offset)
            except PoisonRecordError as error:
                yield dead_letter(
                    (dead_letters, key, value), (topics.pos, partition, offset, timestamp_ms), POS_FANOUT.name, error
                )
            last = partition, offset
    if last is not None:
        yield from reached(*last, topics=topics, purchase_partitions=purchase_partitions)
