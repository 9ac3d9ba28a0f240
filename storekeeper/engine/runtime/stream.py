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

ProcessBatch = Callable[["DataFrame", int], None]
"""Writes one batch: a frame that isn't to be run, and its id. It must be idempotent: after a crash it gets the same id
again, which stands for the same offsets.
"""


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
    """A stream that plans batches, and the function that processes them.

    `trigger_interval_ms` takes precedence over the setting for all apps.
    """

    frame: DataFrame
    process: ProcessBatch
    trigger_interval_ms: int | None = None


def planned_stream(spark: SparkSession, settings: AppSettings, *topics: str, most: int | None) -> DataFrame:
    """A stream whose batches Spark plans, at the first start from the topics' beginnings. Tasks read what is planned.

    Its rows are never asked for. A batch has at most `most` records; None is no limit. Uncommitted ones are not in it.
    """
    limit = {} if most is None else {"maxOffsetsPerTrigger": most}
    return (
        spark.readStream.format("kafka")
        .options(**spark_options(settings.kafka))
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("failOnDataLoss", "true")
        .options(**limit)
        .load()
    )
