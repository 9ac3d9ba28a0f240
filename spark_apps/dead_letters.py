"""Records that can't be processed go to `<topic>-dlq`: their bytes unchanged, and headers that say whence and why.

| header              | value (UTF-8)                                             |
|---------------------|-----------------------------------------------------------|
| `dlq.topic`         | the topic that the record came from                       |
| `dlq.partition`     | its partition there                                       |
| `dlq.offset`        | its offset there                                          |
| `dlq.timestamp`     | its timestamp there, epoch milliseconds                   |
| `dlq.app`           | the app that reports it                                   |
| `dlq.error.class`   | the kind of error                                         |
| `dlq.error.message` | the reason, without any of the record's content           |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.engine.topic_rules import BY_KEY, SinkRecord
from spark_apps.progress import DEAD_LETTERS
from spark_apps.records.poison import PoisonRecordError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def counted(frame: DataFrame, poison: Column) -> DataFrame:
    """The frame, whose rows for which `poison` holds are counted in the app's heartbeat."""
    return frame.observe(DEAD_LETTERS, F.count_if(poison).alias(DEAD_LETTERS))


def dead_letter_headers(app: str, topic: str) -> Column:
    """The headers of rows with the columns partition, offset, timestamp_ms, error_class and error_message."""
    return F.array(
        header("dlq.topic", F.lit(topic)),
        header("dlq.partition", F.col("partition")),
        header("dlq.offset", F.col("offset")),
        header("dlq.timestamp", F.col("timestamp_ms")),
        header("dlq.app", F.lit(app)),
        header("dlq.error.class", F.col("error_class")),
        header("dlq.error.message", F.col("error_message")),
    )


def dead_letter(
    record: tuple[str, bytes | None, bytes | None],
    whence: tuple[str, int, int, int],
    app: str,
    error: PoisonRecordError,
) -> SinkRecord:
    """The record that reports one: `record` is the dead letters' topic, and key and value as they came.

    `whence` is the topic, partition, offset and timestamp (epoch ms) that it came from.
    """
    topic, partition, offset, timestamp_ms = whence
    headers = [
        ("dlq.topic", topic.encode()),
        ("dlq.partition", b"%d" % partition),
        ("dlq.offset", b"%d" % offset),
        ("dlq.timestamp", b"%d" % timestamp_ms),
        ("dlq.app", app.encode()),
        ("dlq.error.class", type(error).__name__.encode()),
        ("dlq.error.message", str(error).encode()),
    ]
    return (*record, headers, BY_KEY)


def header(name: str, value: Column) -> Column:
    """One Kafka header, its value as text."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
