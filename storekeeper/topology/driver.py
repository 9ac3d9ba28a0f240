"""Runs a topology in a test: in this process, without Spark and Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, Self

import orjson

from storekeeper.changelog.partitioner import partition_for
from storekeeper.errors import InvalidArgumentError, SerializationError, UnknownStoreError
from storekeeper.serdes.serde import Serde
from storekeeper.stores.bytes_store import BytesStore, Entry
from storekeeper.stores.record_context import Header
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.topology.careful_task import CarefulTask, run_batch
from storekeeper.topology.dropped_records import DroppedRecords
from storekeeper.topology.failures import OnError
from storekeeper.topology.layout import Layout
from storekeeper.topology.operators.source import Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.plan import Topology
from storekeeper.topology.record_order import Ordered, runs_of
from storekeeper.topology.records import (
    NOWHERE,
    Batch,
    DeadLetter,
    Moved,
    Output,
    Place,
    Record,
    StoreChange,
)
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.task import Task
from storekeeper.topology.task_stores import memory_store, restore
from storekeeper.topology.unchanged_arguments import UnchangedArguments

START_MS = 1_700_000_000_000
POSITION = b"changelog-position"
BATCHES = b"batches"

_Log = tuple[str, int]
_Outcome = tuple[tuple[Task, Batch], Sequence[DeadLetter]]


class CrashStep(StrEnum):
    """The step of a commit at which a task crashes."""

    BEFORE_COMMIT = "before_commit"
    OUTPUTS_WRITTEN = "outputs_written"
    COMMITTED = "committed"


class _OutputFields(NamedTuple):
    key: Any
    value: Any
    timestamp_ms: int


class OutputRecord(_OutputFields):
    """A record that came out: the tuple of its key, value and timestamp.

    Attributes:
        headers: its headers. They don't count in comparisons.
    """

    headers: Sequence[Header]

    def __new__(cls, key: Any, value: Any, timestamp_ms: int, headers: Sequence[Header] = ()) -> Self:
        """The record."""
        record = super().__new__(cls, key, value, timestamp_ms)
        record.headers = headers
        return record


@dataclass(slots=True)
class _Slot:
    """What survives a task's crash: its committed state. `batches` counts those that were committed."""

    sub_topology: SubTopology
    partition: int
    batches: int = 0
    progress: bytes = b"{}"
    positions: dict[_Log, int] = field(default_factory=dict)
    task: Task | None = None


class TopologyTestDriver:
    """A running topology for tests. Piped records are processed before `pipe` returns.

    A function that changes its argument, or what it has passed on, fails the test: see
    `storekeeper.topology.unchanged_arguments`.

    Args:
        topology: what to run.
        partitions: of the source topics; 1 where they are not named.
        on_error: what becomes of a record that an operator can't process; see `topology_app`.
    """

    __test__ = False

    def __init__(
        self, topology: Topology, partitions: Mapping[str, int] | None = None, *,
        on_error: OnError | str = OnError.DEAD_LETTER,
    ) -> None:  # fmt: skip
        sources = [source for sub in topology.sub_topologies for source in sub.sources]
        counts = {source.topic: 1 for source in sources} | dict(partitions or {})
        self._topology = topology
        self._on_error = OnError(on_error)
        self._unchanged = UnchangedArguments()
        self.plan = topology.plan(counts)
        self.now_ms = START_MS
        self.dead_letters: list[DeadLetter] = []
        self.dropped = DroppedRecords()
        self._sources: dict[str, Source] = {source.topic: source for source in sources}
        self._sinks: dict[str, Sink] = {sink.topic: sink for sub in topology.sub_topologies for sink in sub.sinks}
        self._logs: dict[tuple[str, int], list[Record]] = {}
        self._origins: dict[tuple[_Log, int], Place] = {}
        self._read: dict[str, list[OutputRecord]] = {}
        self._changelogs: dict[tuple[str, int], list[StoreChange]] = {}
        self._backends: dict[tuple[str, int], BytesStore] = {}
        self._crash: CrashStep | None = None
        self._batches_before = 0
        self._layout = Layout(self.plan)
        subs = [sub for sub in topology.sub_topologies if sub.is_global]  # every task looks them up
        for stage in range(self._layout.last_stage + 1):
            subs += self._layout.sub_topologies(stage)
        self._slots = [_Slot(sub, number) for sub in subs for number in range(self.plan.tasks(sub))]
        self._globals = {spec.name: partial(self._look_up, slot, spec.name) for slot in self._slots
                         if slot.sub_topology.is_global for spec in slot.sub_topology.stores}  # fmt: skip
        for slot in self._slots:
            self._open(slot)

    def pipe(
        self, topic: str, key: Any, value: Any, timestamp_ms: int | None = None, *, partition: int | None = None,
        headers: Sequence[Header] = (),
    ) -> None:  # fmt: skip
        """Appends a record to a source topic and handles it, with all that follows from it.

        Args:
            topic: a topic that the app reads.
            key: of the topic's type, or None.
            value: of the topic's type, or None.
            timestamp_ms: the record's; that of the driver's clock if None.
            partition: where it goes; its key decides if None.
            headers: its headers.

        Raises:
            InvalidArgumentError: the app does not read that topic, it has no such partition, or key or value are not
                of its types.
        """
        self.append(topic, key, value, timestamp_ms, partition=partition, headers=headers)
        self.run()

    def append(
        self, topic: str, key: Any, value: Any, timestamp_ms: int | None = None, *, partition: int | None = None,
        headers: Sequence[Header] = (),
    ) -> None:  # fmt: skip
        """As `pipe`, but it waits for `run`: several records make one batch."""
        source = self._source(topic)
        key_bytes = None if key is None else _encoded(topic, "key", source.key_serde, key)
        value_bytes = None if value is None else _encoded(topic, "value", source.value_serde, value)
        self.append_bytes(topic, key_bytes, value_bytes, timestamp_ms, partition=partition, headers=headers)

    def append_bytes(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None,
        *, partition: int | None = None, headers: Sequence[Header] = (),
    ) -> None:  # fmt: skip
        """As `append`, of bytes as a topic may hold them."""
        self._source(topic)
        count = self.plan.partitions[topic]
        if partition is None:
            partition = 0 if key is None else partition_for(key, count)
        if not 0 <= partition < count:
            raise InvalidArgumentError(f"topic {topic} has partitions 0 to {count - 1}, not {partition}")
        offset = len(self._logs.get((topic, partition), ()))
        time_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        self._append(Record(topic, partition, offset, time_ms, key, value, headers))

    def run(self) -> None:
        """Processes all waiting records, and those that follow from them.

        As on Spark, a batch has what waits in the topics when it begins, and what comes by shuffle from its tasks.
        """
        while self._run_batch():
            pass

    def advance(self, by_ms: int) -> None:
        """Moves the wall clock on. Stream time moves by records alone.

        Raises:
            InvalidArgumentError: time would go back.
        """
        if by_ms < 0:
            raise InvalidArgumentError("the wall clock never goes back: advance by 0 or more")
        self.now_ms += by_ms
        for slot in self._slots:
            self._batch(slot, Ordered({}, slot.sub_topology), {})
        self.run()

    def crash_at(self, step: CrashStep, *, batches_before: int = 0) -> None:
        """Makes a batch crash at a step of its commit. Its task is rebuilt from the committed state.

        Args:
            step: where it crashes.
            batches_before: how many batches, of any task, are handled before it.
        """
        self._crash = step
        self._batches_before = batches_before

    def read(self, topic: str) -> list[OutputRecord]:
        """The records of a topic that the app writes, since the last `read`, in order.

        Raises:
            InvalidArgumentError: the app does not write that topic.
        """
        if topic not in self._sinks:
            raise InvalidArgumentError(f"the app does not write {topic!r}, only {sorted(self._sinks)}")
        return self._read.pop(topic, [])

    def rows(self, store: str, partition: int | None = None) -> list[tuple[Any, Any]]:
        """The rows of a store, key and value, of one partition or all.

        Raises:
            UnknownStoreError: no store has that name.
        """
        slots = [slot for slot in self._slots_with(store) if partition is None or slot.partition == partition]
        return [row for slot in slots for row in _rows(self._task(slot).store(store))]

    def store(self, name: str, partition: int = 0) -> Any:
        """A store of one partition, with all that its kind can do.

        Raises:
            UnknownStoreError: no store has that name.
            InvalidArgumentError: it has no such partition.
        """
        slots = self._slots_with(name)
        if not 0 <= partition < len(slots):
            raise InvalidArgumentError(f"store {name} has partitions 0 to {len(slots) - 1}, not {partition}")
        return self._task(slots[partition]).store(name)

    def changelog(self, store: str, partition: int = 0) -> list[Entry]:
        """The records of a store's changelog, in order."""
        return [(change.key, change.value) for change in self._changelogs.get((store, partition), ())]

    def _source(self, topic: str) -> Source:
        if topic not in self._sources:
            raise InvalidArgumentError(f"the app does not read {topic!r}, only {sorted(self._sources)}")
        return self._sources[topic]

    def _slots_with(self, store: str) -> list[_Slot]:
        """The slots that have a store, by partition."""
        slots = [slot for slot in self._slots if store in {spec.name for spec in slot.sub_topology.stores}]
        if not slots:
            names = sorted({spec.name for slot in self._slots for spec in slot.sub_topology.stores})
            raise UnknownStoreError(f"there is no store {store!r}, only {names}")
        return slots

    def _append(self, record: Record) -> None:
        self._logs.setdefault((record.topic, record.partition), []).append(record)

    def _run_batch(self) -> bool:
        """Runs one batch; whether there were any records."""
        ends = {log: len(records) for log, records in self._logs.items() if log[0] not in self._layout.shuffles}
        return sum(self._handle(slot, ends) for slot in self._slots) > 0

    def _handle(self, slot: _Slot, ends: Mapping[_Log, int]) -> bool:
        """Runs one task on what waits for it before `ends`, and in its shuffles; whether there was anything."""
        records, read = list[Record](), dict[_Log, int]()
        for log in self._assigned(slot):
            there = self._logs.get(log, [])
            start, end = slot.positions.get(log, 0), len(there) if log[0] in self._layout.shuffles else ends.get(log, 0)
            records += there[start:end]
            read[log] = end
        if records:
            self._batch(slot, Ordered(runs_of(records), slot.sub_topology), read)
        return bool(records)

    def _assigned(self, slot: _Slot) -> Iterable[_Log]:
        for source in slot.sub_topology.sources:
            every = range(self.plan.partitions[source.topic])
            for partition in every if slot.sub_topology.is_global else [slot.partition]:
                if partition in every:
                    yield source.topic, partition

    def _batch(self, slot: _Slot, records: Ordered, read: Mapping[_Log, int]) -> None:
        task = self._task(slot)
        before = dict(task.dropped.by_reason)
        slot.task = None
        plain, careful = partial(self._outcome, task), partial(self._careful_outcome, slot)
        (last, batch), letters = run_batch(plain, careful, records, Ordered.without)
        batch = replace(batch, dead_letters=letters)
        if last is task:
            slot.task = task
        else:
            before = {}
        crash = self._next_crash()
        if crash in {CrashStep.BEFORE_COMMIT, CrashStep.OUTPUTS_WRITTEN}:
            # No reader sees what an aborted transaction wrote.
            slot.task = None
            self._batch(slot, records, read)
            return
        self._commit(slot, read, batch)
        for reason, count in last.dropped.by_reason.items():
            for _ in range(count - before.get(reason, 0)):
                self.dropped.drop(reason)
        if crash is CrashStep.COMMITTED:
            slot.task = None
            return
        ends = {name: len(log) for (name, number), log in self._changelogs.items() if number == slot.partition}
        last.apply(lambda _: {POSITION: orjson.dumps(ends), BATCHES: b"%d" % slot.batches})

    def _careful_outcome(self, slot: _Slot, records: Ordered) -> _Outcome:
        return self._outcome(CarefulTask(*self._arguments(slot), **self._options(slot)), records)

    def _outcome(self, task: Task, records: Ordered) -> _Outcome:
        for part in records:
            task.process(part)
        task.advance(self.now_ms)
        self._unchanged.check()
        batch = task.end_batch()
        return (task, batch), batch.dead_letters

    def _next_crash(self) -> CrashStep | None:
        if self._crash is None or self._batches_before:
            self._batches_before = max(0, self._batches_before - 1)
            return None
        crash, self._crash = self._crash, None
        return crash

    def _commit(self, slot: _Slot, read: Mapping[_Log, int], batch: Batch) -> None:
        for topic, outputs in batch.outputs.items():
            for output in outputs:
                self._write(slot, topic, output)
        for change in batch.changes:
            self._changelogs.setdefault((change.store, slot.partition), []).append(change)
        slot.positions |= read
        slot.batches += 1
        self.dead_letters += [letter.located(partial(self._origin_of, slot)) for letter in batch.dead_letters]
        slot.progress = batch.progress

    def _write(self, slot: _Slot, topic: str, output: Output | Moved) -> None:
        key, value, timestamp_ms, headers, *place = output
        if topic in self._sources:
            count = self.plan.partitions[topic]
            by_key = key is not None or topic in self._layout.shuffles
            partition = partition_for(key or b"", count) if by_key else slot.partition % count
            log = self._logs.setdefault((topic, partition), [])
            # What a task reads behind a repartition has the partition of the task before it: see `order.by_upstream`.
            shown = slot.partition if topic in self._topology.repartition_topics else partition
            if place and place[2] != NOWHERE:
                self._origins[(topic, partition), len(log)] = self._origin_of(slot, place)
            log.append(Record(topic, shown, len(log), timestamp_ms, key, value, headers))
        self._show(topic, key, value, timestamp_ms, headers)

    def _show(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Sequence[Header]
    ) -> None:
        """Lets `read` give a record."""
        sink = self._sinks[topic]
        self._read.setdefault(topic, []).append(
            OutputRecord(
                None if key is None else sink.key_serde.deserialize(key),
                None if value is None else sink.value_serde.deserialize(value),
                timestamp_ms,
                headers,
            )
        )

    def _task(self, slot: _Slot) -> Task:
        if slot.task is None:
            self._open(slot)
        assert slot.task is not None  # noqa: S101 (for the type checker)
        return slot.task

    def _open(self, slot: _Slot) -> None:
        for spec in slot.sub_topology.stores:
            backend = self._backend(spec.name, slot.partition)
            if not spec.options.logging and (backend.metadata(BATCHES) or b"0") != b"%d" % slot.batches:
                del self._backends[spec.name, slot.partition]  # as `engine.unlogged_store` does
                continue
            stored = backend.metadata(POSITION)
            log = self._changelogs.get((spec.name, slot.partition), [])
            start = 0 if stored is None else orjson.loads(stored).get(spec.name, 0)
            if log[start:]:
                restore(spec, backend, log[start:])
        slot.task = Task(*self._arguments(slot), **self._options(slot), guards=self._unchanged)
        slot.task.advance(self.now_ms)

    def _arguments(self, slot: _Slot) -> tuple[SubTopology, int, StoreSupplier]:
        return slot.sub_topology, slot.partition, _Supplier(self, slot.partition)

    def _options(self, slot: _Slot) -> dict[str, Any]:
        return {"progress": slot.progress, "global_tables": self._globals, "on_error": self._on_error,
                "origin_of": partial(self._origin_of, slot)}  # fmt: skip

    def _origin_of(self, slot: _Slot, place: Sequence[Any]) -> Place:
        """The place of the source record that a record of a task comes from."""
        topic, partition, offset = place
        return self._origins.get(((topic, slot.partition), offset), (topic, partition, offset))

    def _look_up(self, slot: _Slot, name: str, key: Any) -> Any:
        return self._task(slot).store(name).get(key)

    def _backend(self, name: str, partition: int) -> BytesStore:
        if (name, partition) not in self._backends:
            specs = {spec.name: spec for slot in self._slots for spec in slot.sub_topology.stores}
            self._backends[name, partition] = memory_store(specs[name])
        return self._backends[name, partition]


@dataclass(frozen=True, slots=True)
class _Supplier:
    driver: TopologyTestDriver
    partition: int

    def open(self, name: str) -> BytesStore:
        return self.driver._backend(name, self.partition)  # noqa: SLF001 (its own part)


def _encoded(topic: str, what: str, serde: Serde[Any], given: Any) -> bytes:
    """Encodes a key or value that its topic's reader can decode."""
    try:
        data = serde.serialize(given)
        serde.deserialize(data)
    except SerializationError as error:
        msg = f"topic {topic} can't have the {what} {given!r}: {error}; append_bytes takes what does not decode"
        raise InvalidArgumentError(msg) from error
    return data


def _rows(store: Any) -> Iterable[tuple[Any, Any]]:
    if hasattr(store, "find_sessions"):
        return list(store.fetch_range(None, None))
    return [(key, getattr(value, "value", value)) for key, value in store.all()]
