"""Running a processor on one partition's records of one batch. Whatever runs it, this is what happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import orjson

from spark_apps.processor.processor import Processor
from spark_apps.processor.records import SKIPPED, OutputRecord, SourceRecord, dead_letter
from spark_apps.processor.state import BatchState, TaskState
from spark_apps.processor.timers import Timers
from spark_apps.records.poison import PoisonRecordError
from state.changelog.partitioner import partition_for

# A window's key comes once for each window that a record falls into.
_partition_of = lru_cache(maxsize=65_536)(partition_for)

OWN = b"k"
"""In front of a processor's keys: timers and progress lie beside them."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a task must know beside its processor.

    Attributes:
        app: the app's name.
        sources: its source topics, in the order in which a batch's records are taken.
        changelogs: changelog topic by store.
        partitions: how many partitions each changelog topic has.
        dead_letters: where a source's poison records go; those of a source that isn't here are counted only.
        late_store: the store that tells how many records came too late, by partition; None if nothing can.
        max_ahead_ms: how far an event's time may lie ahead of its record's timestamp.
        timer_step_ms: timers are due at whole multiples of this.
    """

    app: str
    sources: tuple[str, ...]
    changelogs: Mapping[str, str]
    partitions: Mapping[str, int]
    dead_letters: Mapping[str, str] = field(default_factory=dict)
    late_store: str | None = None
    max_ahead_ms: int = 86_400_000
    timer_step_ms: int = 1000


def run_task(
    processor: Processor, plan: TaskPlan, state: TaskState, records: Iterable[SourceRecord]
) -> list[OutputRecord]:
    """Handles one batch's records of one partition, and returns what is to be written.

    The state is written through at the end. The same state and records give the same state and output, and it makes
    no difference to either store or state how the records are divided into batches.
    """
    batch = BatchState(state)
    run = _TaskRun(plan, batch, Timers(batch, step_ms=plan.timer_step_ms))
    rank = {topic: place for place, topic in enumerate(plan.sources)}
    for record in sorted(records, key=lambda record: (rank[record.topic], record.offset)):
        run.handle(processor, record)
    output = run.finish()
    batch.flush()
    return output


class _TaskRun:
    """The context of all calls of one batch."""

    def __init__(self, plan: TaskPlan, state: BatchState, timers: Timers) -> None:
        self._plan = plan
        self._timers = timers
        self._progress = timers.progress
        self._output: list[OutputRecord] = []
        self._changes: dict[tuple[str, bytes], OutputRecord] = {}
        self._late_before = self._progress.late_records
        self._record: SourceRecord | None = None
        self._partition = 0
        self._state = state
        self.schedule = timers.schedule

    def handle(self, processor: Processor, record: SourceRecord) -> None:
        self._record, self._partition = record, record.partition
        try:
            processor.process(record, self)
        except PoisonRecordError as error:
            topic = self._plan.dead_letters.get(record.topic)
            self._output.append(SKIPPED if topic is None else dead_letter(topic, record, self._plan.app, error))
        while due := self._timers.take_due():  # a timer may schedule another that is due, too
            for key in due:
                processor.punctuate(key, self)

    def finish(self) -> list[OutputRecord]:
        store = self._plan.late_store
        if store is not None and self._progress.late_records != self._late_before:
            told = {"Partition": self._partition, "LateRecords": self._progress.late_records}
            self.change(store, b"%d" % self._partition, orjson.dumps(told))
        self._timers.flush()
        return [*self._output, *self._changes.values()]

    def get(self, key: bytes) -> bytes | None:
        return self._state.get(OWN + key)

    def put(self, key: bytes, value: bytes | None) -> None:
        self._state.put(OWN + key, value)

    @property
    def stream_time_ms(self) -> int:
        return self._progress.stream_time_ms

    def advance(self, event_time_ms: int) -> None:
        assert self._record is not None  # noqa: S101 (a processor's own timers advance nothing)
        if event_time_ms > self._record.timestamp_ms + self._plan.max_ahead_ms:
            msg = f"the event's time is more than {self._plan.max_ahead_ms} ms ahead of the record's own"
            raise PoisonRecordError(msg)
        self._progress.stream_time_ms = max(self._progress.stream_time_ms, event_time_ms)

    def forward(self, topic: str, key: bytes, value: bytes | None) -> None:
        self._output.append(OutputRecord(topic, key, value))

    def change(self, store: str, key: bytes, value: bytes | None, *, inner_key: bytes | None = None) -> None:
        topic = self._plan.changelogs[store]
        partition = None if inner_key is None else _partition_of(inner_key, self._plan.partitions[topic])
        self._changes.pop((store, key), None)
        self._changes[store, key] = OutputRecord(topic, key, value, partition)

    def late(self) -> None:
        self._progress.late_records += 1


def by_partition(records: Sequence[SourceRecord]) -> dict[int, list[SourceRecord]]:
    """The records of each task."""
    tasks: dict[int, list[SourceRecord]] = {}
    for record in records:
        tasks.setdefault(record.partition, []).append(record)
    return tasks
