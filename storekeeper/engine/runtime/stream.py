"""What the runner gets for an app: a stream of topics, and a function that processes its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.engine.runtime.checkpoint import SparkCheckpoint
from storekeeper.engine.runtime.sink_metrics import SinkMetrics
from storekeeper.kafka.clients import spark_options
from storekeeper.topology.slots import Slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FETCH_WAIT_MS = 50
"""How long a task's last fetch waits in vain if only Kafka's commit marker is left to read."""

ProcessBatch = Callable[["DataFrame", int], None]
"""Writes one batch: its rows and its id. It must be idempotent: after a crash it gets the same rows and id again."""


class GenerationView(Protocol):
    """What a run must know of its generation."""

    @property
    def partitions(self) -> int | None:
        """Of each of its changelogs; None leaves it to the topology."""

    def writes_outputs(self, batch_id: int) -> bool:
        """Whether this generation writes that batch's outputs."""


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What it takes to open an app's stream and to write its batches.

    `metrics` counts what was written. `generation` is the journal's entry of the generation that runs; None if the app
    is run without regard to it. `partitions` is, by topic, the number of partitions that the app's state was made with.
    `slots` are those of the app's tasks.
    """

    spec: AppSpec
    spark: SparkSession
    settings: AppSettings
    checkpoint: SparkCheckpoint
    metrics: SinkMetrics = field(default_factory=SinkMetrics)
    generation: GenerationView | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    slots: Slots = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming frame and the function that processes its batches.

    `trigger_interval_ms` takes precedence over the setting for all apps.
    """

    frame: DataFrame
    process: ProcessBatch
    trigger_interval_ms: int | None = None


def read_stream(
    spark: SparkSession, settings: AppSettings, *topics: str, most: int | None, headers: bool = False
) -> DataFrame:
    """The records of topics as a stream, at the first start from their beginning.

    Rows are Spark's Kafka rows: key, value, topic, partition, offset, timestamp and, if wanted, headers. A batch holds
    at most `most` of them; None is no limit. One task reads one partition, in the order of offsets. Uncommitted records
    are not read.
    """
    limit = {} if most is None else {"maxOffsetsPerTrigger": most}
    return (
        spark.readStream.format("kafka")
        .options(**spark_options(settings.kafka))
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", str(headers).lower())
        .options(**limit)
        .load()
    )
