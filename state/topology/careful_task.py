"""Running a batch again without the records that it fails on.

The task that failed is discarded, and nothing of it stays. Another one, with guards around the user's functions, runs
the batch from the committed state over overlays of the stores. It commits to them in smaller batches:

    records   a b c d e f g        d fails: the task is discarded, and with it all that d wrote, anywhere
              [a b c]              a new task commits those before it to the overlays
                      [e f g]      d is a dead letter, and the rest goes on

As results don't depend on where batches are cut, the outcome is that of the same batch without d. Each record is
processed at most twice, and for each one that fails the operators are built once more. Neither is needed where the
operator that fails comes before all others that a record reaches: nothing has changed then.

A row that waited in the task, and was let go while another record was under way, is left out itself: see
`Guards.releasing`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from state.stores.bytes_store import NO_METADATA, BytesStore
from state.stores.suppliers import StoreSupplier
from state.stores.transaction import TransactionStore
from state.topology.dropped_records import DroppedRecords
from state.topology.event_time import LATEST_MS
from state.topology.failures import OnError
from state.topology.guards import CarefulGuards, Failure, letter_of
from state.topology.operators.stateless import fails_before_all_others
from state.topology.plan import SubTopology
from state.topology.records import Batch, DeadLetter, Output, Outputs, RecordFields, StoreChange
from state.topology.stream_time import StreamTime
from state.topology.task import Task

_COLLECT_EVERY = 100


class CarefulTask:
    """A task that leaves out the records which its operators fail on. It runs one batch. Not thread-safe.

    Attributes:
        sub_topology: what it runs.
    """

    def __init__(
        self,
        sub_topology: SubTopology,
        partition: int,
        supplier: StoreSupplier,
        *,
        progress: bytes = b"{}",
        global_tables: Mapping[str, Callable[[Any], Any]] | None = None,
        on_error: OnError = OnError.DEAD_LETTER,
        latest_ms: int = LATEST_MS,
        check_change: Callable[[StoreChange], None] = lambda _: None,
    ) -> None:
        """Builds the operators over overlays of the stores; see `Task`.

        `check_change` raises a `SerializationError` for a change that the store's changelog would refuse.
        """
        self._check_change = check_change
        self._harmless = {node.name for node in fails_before_all_others(sub_topology.nodes)}
        self.sub_topology = sub_topology
        self._overlays = _Overlays(supplier)
        self._on_error, self._latest_ms = on_error, latest_ms
        self._progress = progress
        self._partition = partition
        self._global_tables = global_tables
        self._outputs: dict[str, list[Output]] = {}
        self._changes: dict[tuple[str, bytes], StoreChange] = {}
        self._letters: list[DeadLetter] = []
        self.dropped = DroppedRecords()
        self._built = 0
        self._rebuild({})

    @property
    def stream_time(self) -> StreamTime:
        """The greatest timestamp of the records that were not left out."""
        return self._task.stream_time

    def process(self, records: Sequence[RecordFields]) -> None:
        """Takes records in their order, and leaves out those that operators fail on.

        Raises:
            Exception: an error that no record is to blame for, or of an operator that is to fail the batch.
        """
        self._run([_Step(self._take, record) for record in records])

    def advance(self, now_ms: int) -> None:
        """Fires the timers that are due by the wall clock. What they pass on is left out if it fails."""

        def fire(_: Any) -> None:
            self._task.advance(now_ms)

        self._run([_Step(fire, None)])

    def take_outputs(self) -> Outputs:
        """The records for sink and repartition topics so far. They will not be given again."""
        taken, self._outputs = self._outputs, {}
        return taken

    def end_batch(self) -> Batch:
        """All writes of the batch, without the outputs that were taken before."""
        self._run([])
        return Batch(self.take_outputs(), list(self._changes.values()), self._letters, self._progress)

    def apply(self, metadata: Callable[[str], Mapping[bytes, bytes | None]] = lambda _: NO_METADATA) -> None:
        """Writes the committed batch's changes to the stores; see `Task.apply`."""
        self._overlays.commit(metadata)

    def close(self) -> None:
        """Closes the stores. Writes that were not applied are lost."""
        self._overlays.close()

    def _take(self, record: RecordFields) -> None:
        self._task.process((record,))

    def _run(self, steps: Sequence[_Step]) -> None:
        """Takes steps and commits them to the overlays. The task has nothing uncommitted before and after."""
        while True:
            taken = 0
            try:
                for taken, step in enumerate(steps):  # noqa: B007 (how far it came)
                    self._step(step)
                taken = len(steps)
                batch = self._task.end_batch()
                for change in batch.changes:
                    self._guards.function(f"store {change.store}", self._check_change)(change)
            except Exception as error:
                steps = self._rest(steps, taken, self._failure(error))
                if not steps:
                    return
            else:
                self._keep(batch)
                return

    def _step(self, step: _Step) -> None:
        """Takes a step. A record is left out at once if it has changed nothing before it failed."""
        if step.is_out:
            return
        try:
            step.take(step.record)
        except Exception as error:
            failure = self._failure(error)
            if failure.release is not None or failure.operator not in self._harmless:
                raise
            self._leave_out(step, failure)
            step.is_out = True

    def _rest(self, steps: Sequence[_Step], taken: int, failure: Failure) -> Sequence[_Step]:
        """Deals with a failure of the step after the first `taken`, or of the batch's end. Returns the steps to take.

        What was taken before it is committed, and a record that is to blame is left out.
        """
        ended = taken == len(steps)
        if failure.release is not None and (ended or not taken):
            # As far as this, another run releases the same rows.
            self._rebuild({**self._guards.discards, failure.release: failure})
            return steps or [_Step(_nothing, None)]
        self._rebuild({})
        if ended and taken > 1:  # one of them left a row that can't be written
            half = taken // 2
            self._run(steps[:half])
            return steps[half:]
        if not taken or ended:
            self._leave_out(steps[0] if steps else None, failure)
            return steps[1:]
        self._run(steps[:taken])
        if failure.release is not None:
            return steps[taken:]
        self._leave_out(steps[taken], failure)
        return steps[taken + 1 :]

    def _failure(self, error: Exception) -> Failure:
        """Who is to blame for an error.

        Raises:
            Exception: the error, if it is not a record's, or its operator is to fail.
        """
        failure = self._guards.of(error)
        if failure is None or not failure.condemns:
            raise error
        return failure

    def _leave_out(self, step: _Step | None, failure: Failure) -> None:
        if step is None or step.record is None:
            raise failure.error
        self._letters.append(letter_of(step.record, failure))

    def _keep(self, batch: Batch) -> None:
        """Commits a part of the batch to the overlays."""
        task = self._task
        for topic, outputs in batch.outputs.items():
            self._outputs.setdefault(topic, []).extend(outputs)
        for change in batch.changes:
            self._changes.pop((change.store, change.key), None)
            self._changes[change.store, change.key] = change
        self._letters += [*batch.dead_letters, *self._guards.letters]
        self._progress = batch.progress
        self.dropped.add(task.dropped)
        task.apply()
        task.dropped.clear()
        self._guards.begin()

    def _rebuild(self, discards: Mapping[int, Failure]) -> None:
        """Puts a new task over the overlays in the place of the one that failed."""
        self._built += 1
        if self._built % _COLLECT_EVERY == 0:
            # The tasks before are cycles, and an engine may have turned the collector off.
            gc.collect()
        self._guards = CarefulGuards(self._on_error, discards)
        self._task = Task(
            self.sub_topology, self._partition, self._overlays, progress=self._progress,
            global_tables=self._global_tables, on_error=self._on_error,
            latest_ms=self._latest_ms, guards=self._guards,
        )  # fmt: skip


def _nothing(_: Any) -> None:
    """The step of a batch without records."""


class _Step:
    """A record that is taken, or something else that a task does between records."""

    __slots__ = ("is_out", "record", "take")

    def __init__(self, take: Callable[[Any], None], record: RecordFields | None) -> None:
        self.take = take
        self.record = record
        self.is_out = False


class _Overlay(TransactionStore):
    """The uncommitted writes of a careful run. Its tasks don't close the store below."""

    def close(self) -> None:
        """Does nothing."""


class _Overlays:
    """The overlays of a task's stores. A `StoreSupplier`."""

    def __init__(self, supplier: StoreSupplier) -> None:
        self._supplier = supplier
        self._open: dict[str, _Overlay] = {}

    def open(self, name: str) -> BytesStore:
        """The store's overlay."""
        if name not in self._open:
            self._open[name] = _Overlay(self._supplier.open(name))
        return self._open[name]

    def close(self) -> None:
        """Closes the stores below."""
        for overlay in self._open.values():
            overlay.inner.close()

    def commit(self, metadata: Callable[[str], Mapping[bytes, bytes | None]]) -> None:
        """Writes everything to the stores below, with metadata in the same step."""
        for name, overlay in self._open.items():
            overlay.write((), metadata(name))
            overlay.commit()
