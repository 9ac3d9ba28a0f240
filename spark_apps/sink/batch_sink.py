"""The driver's part of the sink: plans a batch's tasks, runs them, and adds up what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog
from pyspark import TaskContext

from spark_apps.errors import PartitionsChangedError
from spark_apps.generations.errors import UnconvertibleRowsError
from spark_apps.ledger import BatchWritten
from spark_apps.partitions import counts_in
from spark_apps.sink.errors import BrokerRefusedError, FencedWriterError, UnrepeatableBatchError
from spark_apps.sink.markers import MARKER_TOPIC_CONFIG, markers_topic
from spark_apps.sink.records import MapRecords
from spark_apps.sink.task import SinkPlan, TaskOutcome, write_task
from spark_apps.sink.task_input import TruncatedInputError
from spark_apps.topics import Topics
from state.changelog.connecting import CONNECT_AT_ONCE
from state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_apps.settings import AppSettings
    from spark_apps.stream import StreamContext

_log = structlog.get_logger(__name__)
_ERRORS: Mapping[str, type[StateError]] = {
    kind.__name__: kind
    for kind in (
        BrokerRefusedError,
        FencedWriterError,
        PartitionsChangedError,
        UnrepeatableBatchError,
        TruncatedInputError,
        UnconvertibleRowsError,
    )
}
_NUMBERS = [name for name in TaskOutcome._fields if name != "skipped"]
_OUTCOME = pa.schema(
    [
        *((name, pa.int64()) for name in _NUMBERS),
        ("skipped", pa.bool_()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)
_OUTCOME_DDL = ", ".join([*(f"{name} bigint" for name in _NUMBERS), "skipped boolean", "error string, message string"])


@dataclass(slots=True)
class BatchSink:
    """Writes the batches of one stream. One for each place where an app writes; each has a name of its own.

    With `source_slots` the frames are maps of the source's rows and have its columns `topic` and `partition`; otherwise
    Spark's partition of a row must be decided by its key alone, as it is behind a shuffle.
    """

    context: StreamContext
    name: str
    source_slots: bool
    _last_batch: int | None = field(default=None, repr=False)
    _plan: SinkPlan | None = field(default=None, repr=False)
    _slots: int = field(default=0, repr=False)

    def write(self, frame: DataFrame, batch_id: int, records_of: MapRecords) -> None:
        """Runs the batch's tasks and returns once all of their records are there for good.

        Raises:
            StateError: a task failed; see `write_task`. Nothing of it is visible; other tasks may be complete.
        """
        if self._last_batch == batch_id:
            msg = f"sink {self.name!r} got batch {batch_id} twice: give each place where an app writes its own name"
            raise StateError(msg)
        slots = self._slots_of(batch_id)
        if self._plan is None or slots > self._slots:  # a source may get more partitions
            self._plan, self._slots = self._planned(slots), slots
        plan = replace(self._plan, batch_id=batch_id)
        rows = frame.mapInArrow(partial(run_task, records_of=records_of, plan=plan), _OUTCOME_DDL).collect()
        for row in rows:
            if row["error"] is not None:
                raise _ERRORS[row["error"]](row["message"])
        self._last_batch = batch_id
        replayed = sum(row["skipped"] for row in rows)
        if replayed:
            _log.info("batch_was_committed", app=plan.app, batch=batch_id, tasks=replayed, of=len(rows))
        self.context.ledger.add(
            BatchWritten(
                records=sum(row["records"] for row in rows if not row["skipped"]),
                dead_letters=sum(row["dead_letters"] for row in rows),
                replayed_tasks=replayed,
                write_ms=max((row["write_ms"] for row in rows), default=0),
                commit_ms=max((row["open_ms"] + row["commit_ms"] for row in rows), default=0),
            )
        )

    def _slots_of(self, batch_id: int) -> int:
        """How many slots the tasks of a batch may have."""
        settings = self.context.settings
        if not self.source_slots:
            return settings.shuffle_partitions
        sources = self.context.spec.sources(settings)
        found = counts_in(self.context.checkpoint.end_position(batch_id))
        return max(found.get(topic, 0) for topic in sources) * len(sources)

    def _planned(self, slots: int) -> SinkPlan:
        context, settings = self.context, self.context.settings
        spec, app = context.spec, context.spec.name
        topics = Topics(settings.kafka_bootstrap)
        sources = spec.sources(settings) if self.source_slots else ()
        changelogs = {store.changelog_topic for store in spec.stores}
        markers = None
        if settings.delivery == "exactly_once":
            markers = markers_topic(app, settings.generation, self.name)
            topics.ensure_internal(markers, slots, MARKER_TOPIC_CONFIG)
        dead_letters = spec.dead_letters(settings)
        return SinkPlan(
            bootstrap=settings.kafka_bootstrap,
            app=app,
            transactional_id=f"{app}-gen-{settings.generation}-{self.name}",
            query_id=context.checkpoint.query_id() or "",
            batch_id=-1,
            markers=markers,
            source_topics=sources,
            partitions={topic: count for topic, count in context.partitions.items() if topic in changelogs},
            rules=topics.rules(name for name in spec.topics(settings) if name not in spec.sources(settings)),
            refused_to=dead_letters[0] if dead_letters else None,
            dead_letter_topics=frozenset(dead_letters),
            producer=producer_options(settings),
            timeout_s=settings.transaction_timeout_ms / 1000,
        )


def producer_options(settings: AppSettings) -> dict[str, str | int]:
    """The client's settings for many small records, in its own names."""
    return {
        "partitioner": "murmur2_random",
        "enable.idempotence": "true",
        "compression.type": "lz4",
        "linger.ms": 50,
        # Below what any topic takes by default: a batch that is too large would be refused as a whole.
        "batch.size": 512 * 1024,
        "message.max.bytes": settings.max_request_bytes,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 128 * 1024,
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "delivery.timeout.ms": settings.transaction_timeout_ms,
        "reconnect.backoff.max.ms": 500,
        **CONNECT_AT_ONCE,
        "log_level": 3,
    }


def run_task(batches: Iterator[pa.RecordBatch], *, records_of: MapRecords, plan: SinkPlan) -> Iterator[pa.RecordBatch]:
    """`write_task` as Spark runs it: its outcome as a row, or its error, so that the driver can raise it again."""
    context = TaskContext.get()
    partition_id = 0 if context is None else context.partitionId()
    row: dict[str, object] | None
    try:
        outcome = write_task(batches, partition_id, records_of, plan)
        row = None if outcome is None else outcome._asdict()
    except tuple(_ERRORS.values()) as error:
        for _ in batches:
            pass  # the worker expects its input to be read
        row = {"error": type(error).__name__, "message": str(error)}
    if row is not None:
        yield pa.RecordBatch.from_pylist([row], schema=_OUTCOME)
