"""Running a topology in a test: what every driver can do, and the one that needs neither Spark nor Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import orjson

from spark_apps.processor.records import OutputRecord, SourceRecord
from spark_apps.processor.state import MemoryTaskState
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec, StoreSpec
from spark_apps.testkit.crash import Crash, Step
from spark_apps.testkit.declared import check_row
from spark_apps.testkit.store_view import StoreView
from spark_apps.testkit.topologies import Topology, topology_of
from state.changelog.partitioner import partition_for
from state.errors import InvalidArgumentError, UnknownStoreError

PARTITIONS = 4
"""Partitions of every topic in a test."""

START_MS = 1_700_000_000_000
"""The time at which a driver's clock begins, epoch milliseconds."""

Piped = str | bytes | Mapping[str, Any] | None
"""A key or value to be piped: text is encoded, a mapping becomes JSON."""


class ReplayDiffersError(AssertionError):
    """A batch that was run again wrote something else than the first time: the topology isn't deterministic."""


class TopologyDriver(Protocol):
    """A running topology, to be fed and looked at."""

    def pipe(self, topic: str, key: Piped, value: Piped, *, partition: int | None = None) -> None:
        """Appends a record to a source topic, with the driver's time. It is handled by the next `run`."""
        ...

    def advance(self, by_ms: int) -> None:
        """Moves the driver's clock on. Stream time moves by events alone."""
        ...

    def run(self, crash: Crash | None = None) -> None:
        """Handles all that was piped, as one batch; after a crash, first the batch that was cut off.

        With `crash` it dies at that step of the batch.
        """
        ...

    def output(self, topic: str) -> list[OutputRecord]:
        """All that a reader of a sink, dead-letter or changelog topic has seen so far, by partition and order."""
        ...

    def store(self, name: str) -> StoreView:
        """The rows of a store as they are now."""
        ...

    def close(self) -> None:
        """Ends what the driver had started."""
        ...


class PlainDriver:
    """Runs a topology in this process. Each task's state is a dictionary, replaced when its batch is committed."""

    def __init__(self, topology: Topology, stores: Mapping[str, StoreSpec]) -> None:
        self._topology = topology
        self._stores = stores
        self._changelogs = {store.changelog_topic: store for store in stores.values()}
        self._now_ms = START_MS
        self._ends: dict[tuple[str, int], int] = {}
        self._piped: list[SourceRecord] = []
        self._planned: list[SourceRecord] = []
        self._written: list[OutputRecord] | None = None
        self._states: dict[int, MemoryTaskState] = {}
        self._output: dict[str, list[OutputRecord]] = {}

    def pipe(self, topic: str, key: Piped, value: Piped, *, partition: int | None = None) -> None:
        """Appends a record to a source topic; the key decides its partition unless one is given."""
        key_bytes = encoded(key)
        if partition is None:
            partition = partition_for(key_bytes, PARTITIONS) if key_bytes is not None else 0
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        self._piped.append(SourceRecord(topic, partition, offset, self._now_ms, key_bytes, encoded(value)))

    def advance(self, by_ms: int) -> None:
        """Moves the driver's clock on.

        Raises:
            InvalidArgumentError: time would go back.
        """
        if by_ms < 0:
            raise InvalidArgumentError("time never goes back")
        self._now_ms += by_ms

    def run(self, crash: Crash | None = None) -> None:
        """Runs the batch that was cut off, if there is one, then one of all that was piped.

        Raises:
            ReplayDiffersError: a batch that was cut off after it had written wrote something else now.
            UndeclaredRowError: a row is not as its store's spec declares.
        """
        if self._planned:
            self._batch(None)
        if self._piped:
            self._planned, self._piped = self._piped, []
            self._batch(crash)

    def output(self, topic: str) -> list[OutputRecord]:
        """What was written to a topic, by partition and order. What a replay wrote again is there once."""
        return sorted(self._output.get(topic, ()), key=lambda record: record.partition or 0)

    def store(self, name: str) -> StoreView:
        """The rows of a store.

        Raises:
            UnknownStoreError: the app keeps none of that name.
        """
        spec = store_of(self._stores, name)
        changes = ((record.key or b"", record.value) for record in self.output(spec.changelog_topic))
        return StoreView(spec, changes)

    def close(self) -> None:
        """Nothing to end."""

    def _batch(self, crash: Crash | None) -> None:
        if crash == Crash(Step.PLAN):
            return
        states = {task: state.copy() for task, state in self._states.items()}
        output: list[OutputRecord] = []
        for task, records in sorted(self._topology.tasks(self._planned).items()):
            output += self._topology.run(states.setdefault(task, MemoryTaskState()), records)
        if crash == Crash(Step.STATE_WRITE):
            return
        self._write(output)
        if crash == Crash(Step.SINK_WRITE):
            return
        self._states, self._planned, self._written = states, [], None

    def _write(self, output: list[OutputRecord]) -> None:
        if self._written is None:
            for record in output:
                if record.topic is not None:
                    if record.topic in self._changelogs and record.value is not None:
                        check_row(self._changelogs[record.topic], record.value)
                    self._output.setdefault(record.topic, []).append(_placed(record))
        elif self._written != output:
            msg = f"the batch wrote {len(self._written)} records, and when it was run again {len(output)} others"
            raise ReplayDiffersError(msg)
        self._written = output


def plain_driver(spec: AppSpec, settings: AppSettings | None = None, topology: Topology | None = None) -> PlainDriver:
    """A driver for an app, with the topology that its spec names unless another is given."""
    made = topology or topology_of(spec, settings or AppSettings(), PARTITIONS)
    return PlainDriver(made, stores_of(spec))


def stores_of(spec: AppSpec) -> dict[str, StoreSpec]:
    """An app's stores by name."""
    return {store.name: store for store in spec.stores}


def store_of(stores: Mapping[str, StoreSpec], name: str) -> StoreSpec:
    """The store of that name.

    Raises:
        UnknownStoreError: there is none.
    """
    if name not in stores:
        msg = f"the app keeps no store {name[:140]!r}: choose one of {', '.join(stores) or 'none'}"
        raise UnknownStoreError(msg)
    return stores[name]


def encoded(piped: Piped) -> bytes | None:
    """A key or value as bytes."""
    if piped is None or isinstance(piped, bytes):
        return piped
    return piped.encode() if isinstance(piped, str) else orjson.dumps(piped)


def _placed(record: OutputRecord) -> OutputRecord:
    if record.partition is not None or record.key is None:
        return record
    return record._replace(partition=partition_for(record.key, PARTITIONS))


def values(records: Sequence[OutputRecord]) -> list[Any]:
    """The records' values, JSON read as Python has it; None for a tombstone."""
    return [None if record.value is None else orjson.loads(record.value) for record in records]
