"""Topics as Spark reads them."""

from __future__ import annotations

import orjson
from pyspark.sql import DataFrame, SparkSession

from spark_apps.settings import AppSettings
from spark_apps.topics import Topics
from state.changelog.position import Position

_EARLIEST = -2
"""What Spark's Kafka source calls the beginning of a partition."""
_FETCH_WAIT_MS = 50
"""A task that reads up to the mark of a transaction, with nothing behind it, waits so long for nothing."""


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
