"""Topics as Spark reads them."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_apps.settings import AppSettings

_FETCH_WAIT_MS = 50
"""How long a task's last fetch waits in vain if only Kafka's commit marker is left to read."""


def read_stream(spark: SparkSession, settings: AppSettings, *topics: str, headers: bool = False) -> DataFrame:
    """The records of topics as a stream, at the first start from their beginning.

    Rows are Spark's Kafka rows: key, value, topic, partition, offset, timestamp and, if wanted, headers. A batch holds
    at most `max_offsets_per_trigger` of them. One task reads one partition, in the order of offsets. Uncommitted
    records are not read.
    """
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
    )
