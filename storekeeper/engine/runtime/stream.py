"""What the runner gets for an app: what plans its batches, and a function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.changelog.seeds import SeedSource
from storekeeper.engine.runtime.batch_query import BatchQuery, Plans, ProcessBatch, never
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.sink_metrics import SinkMetrics, Written
from storekeeper.topology.slots import Slots

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = structlog.get_logger(__name__)


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
    `slots` are those of the app's tasks. `seeds` finds the tables that their local stores may begin with.
    """

    spec: AppSpec
    spark: SparkContext
    settings: AppSettings
    checkpoint: BatchCheckpoint
    metrics: SinkMetrics = field(default_factory=SinkMetrics)
    generation: GenerationView | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    slots: Slots = field(default_factory=dict)
    seeds: SeedSource | None = None

    def wrote(self, batch_id: int, written: Written) -> None:
        """Counts what a batch wrote. Its dead letters have a line in the log for each topic and kind of error."""
        self.metrics.add(batch_id, written)
        for kind in written.letters:
            _log.warning("dead_letters", app=self.spec.name, batch=batch_id, **msgspec.structs.asdict(kind))


@dataclass(frozen=True, slots=True)
class Stream:
    """What plans batches, and the function that runs them.

    `trigger_interval_ms` takes precedence over the setting for all apps. `due` says whether a batch is to run though no
    records wait.
    """

    plans: Plans
    process: ProcessBatch
    trigger_interval_ms: int | None = None
    due: Callable[[], bool] = never

    def query(self, context: StreamContext, *, interval_ms: int = 0) -> BatchQuery:
        """The query that runs the batches."""
        return BatchQuery(
            context.spark, context.spec.name, self.plans, self.process, context.checkpoint, interval_ms / 1000, self.due
        )
