"""What an app's module gives to the runner: a stream, and a function that processes its batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.ledger import Ledger
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_apps.generations.journal import Generation

ProcessBatch = Callable[["DataFrame", int], None]
"""Writes one batch: its rows and its id. It must be idempotent: after a crash it gets the same rows and id again."""


@dataclass(frozen=True, slots=True)
class StreamContext:
    """What an app may use to open its stream and to write its batches.

    `ledger` counts what was written. `generation` is the journal's entry
    of the generation that runs; None if the app is run without regard to it. `partitions` is, by topic, the number
    of partitions that the app's state was made with.
    """

    spec: AppSpec
    spark: SparkSession
    settings: AppSettings
    checkpoint: SparkCheckpoint
    ledger: Ledger = field(default_factory=Ledger)
    generation: Generation | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming frame and the function that processes its batches.

    `output_mode` is Spark's. `trigger_interval_ms` takes precedence over the setting for all apps.
    """

    frame: DataFrame
    process: ProcessBatch
    output_mode: str = "append"
    trigger_interval_ms: int | None = None


OpenStream = Callable[[StreamContext], Stream]
