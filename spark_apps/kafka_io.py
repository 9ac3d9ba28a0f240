"""Kafka as Spark reads and writes it."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_apps.settings import AppSettings
from spark_apps.stream import StreamContext

HEADERS_TYPE = "array<struct<key: string, value: binary>>"
"""The Spark SQL type of a record's headers."""


def read_stream(spark: SparkSession, settings: AppSettings, *topics: str, headers: bool = False) -> DataFrame:
    """The records of topics as a stream, from their beginning at the first start.

    Rows are Spark's Kafka rows: key, value, topic, partition, offset, timestamp and, if wanted, headers. A batch holds
    at most `max_offsets_per_trigger` of them. One task reads one partition, in the order of offsets.
    """
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
    )


def write_records(batch: DataFrame, batch_id: int, context: StreamContext) -> None:
    """Writes a batch's rows to Kafka and returns once the broker has all of them.

    Columns: topic string, key binary, value binary, headers array<struct<key string, value binary>>, and optionally
    partition int, where null lets the key decide. Rows of one task that go to one partition keep their order. A null
    value is a tombstone. The partitioner is the Java client's own (murmur2 of the key).
    """
    settings = context.settings
    (
        batch.write.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("kafka.max.request.size", settings.max_request_bytes)
        .option("kafka.compression.type", "lz4")
        .option("kafka.linger.ms", 50)
        .option("kafka.batch.size", 262_144)
        .save()
    )
