"""One task of one batch: from its records to its committed transaction and its local stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import structlog

from storekeeper.apps.errors import LostChangelogError
from storekeeper.apps.topology_app import is_served
from storekeeper.changelog.committed_ends import committed_ends
from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.dead_letters import by_kind, dead_letter, kinds_of
from storekeeper.engine.global_tables import GlobalTableCopy
from storekeeper.engine.key_check import KeyCheck
from storekeeper.engine.local_store import LocalStore
from storekeeper.engine.markers import Marker, Passed, SourceSpans, places_in, spans_of
from storekeeper.engine.origins import Origins
from storekeeper.engine.parcels import parcels_of, passed
from storekeeper.engine.partitioning import partitions_of
from storekeeper.engine.restore_progress import Restoring, reporting, restore_dir
from storekeeper.engine.runtime.sink_metrics import Written
from storekeeper.engine.store_backends import TaskBackend, put_aside, task_backend
from storekeeper.engine.task_input import check_input_complete
from storekeeper.engine.transaction import Transaction
from storekeeper.engine.unlogged_store import UnloggedStore
from storekeeper.engine.work import BatchWork
from storekeeper.errors import FutureTimestampError, RecordFailedError, StateError, StoreCorruptedError
from storekeeper.stores.bytes_store import BytesStore, is_empty
from storekeeper.stores.suppliers import MemorySupplier
from storekeeper.topology.careful_task import CarefulTask, run_batch
from storekeeper.topology.failures import is_of_record, summary_of
from storekeeper.topology.layout import Layout
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.record_order import Ordered, with_upstream
from storekeeper.topology.records import NOWHERE, Batch, DeadLetter, Moved, Outputs, RecordFields, StoreChange
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.task import Task
from storekeeper.topology.times import LATEST_MS
from storekeeper.topology.topology_store import TopologyStore

_Outcome = tuple[tuple[Task, Batch, dict[str, list[Moved]], dict[str, int]], Sequence[DeadLetter]]

Forwarded = Mapping[str, Sequence[bytes]]
"""The parcels that go to shuffles, by the topic that each stands for."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TaskRun:
    """One task of one batch.

    Attributes:
        work: the batch.
        layout: the app's tasks.
        sub: the sub-topology that the task runs.
        partition: its partition of the topics that it reads, and of its stores.
        origins: where its records come from.
        global_tables: this process's copies, by store.
        clock: the time source of wall-clock timers.
    """

    work: BatchWork
    layout: Layout
    sub: SubTopology
    partition: int
    origins: Origins
    global_tables: Mapping[str, GlobalTableCopy] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    def __call__(self, records: Ordered) -> tuple[Written, Forwarded]:
        """Runs the task; returns what it wrote, and the parcels that go to shuffles.

        Args:
            records: all of the task's records in this batch.

        Raises:
            StateError: the task can't commit. None of its writes are visible, and its local stores are unchanged.
        """
        app = self.work.app
        source = self.work.source_of(self.layout.origins(self.sub))
        transaction = Transaction(app.writer, app.slot(self.sub, self.partition), self.work.batch_id, source)
        if transaction.is_replay:
            return Written(replayed_tasks=1), self._forwarded_again(records, transaction)
        try:
            with closing(_LocalStores(self)) as stores:
                stores.catch_up(transaction.committed)
                return self._run(records, transaction, stores)
        except StoreCorruptedError as error:
            transaction.abandon()
            # RocksDB finds damage in a file only on reading it. The next attempt restores the stores.
            for spec in self.sub.stores:
                put_aside(self.holder(spec), spec.name, error)
            raise
        except BaseException as error:
            transaction.abandon()
            if isinstance(error, Exception) and (not isinstance(error, StateError) or is_of_record(error)):
                raise RecordFailedError(summary_of(error)) from error
            raise

    def _run(self, records: Ordered, transaction: Transaction, stores: _LocalStores) -> tuple[Written, Forwarded]:
        progress = b"{}" if transaction.committed is None else transaction.committed.progress
        for table in self.global_tables.values():
            table.catch_up()
        tables = {name: table.get for name, table in self.global_tables.items()}
        app = self.work.app
        options: dict[str, Any] = {
            "progress": progress,
            "global_tables": tables,
            "on_error": app.on_error,
            "origin_of": self.origins.of,
            "latest_ms": min([LATEST_MS, *(transaction.latest_ms(topic) for topic in self._own_topics)]),
        }
        check = partial(self._check_change, transaction)

        def plain(those: Ordered) -> _Outcome:
            try:
                return self._processed(Task(self.sub, self.partition, stores, **options), those, transaction)
            except Exception as error:
                if is_of_record(error):
                    name = app.slot(self.sub, self.partition).name
                    _log.warning("batch_run_again", slot=name, why=summary_of(error))
                raise

        def careful(those: Ordered) -> _Outcome:
            transaction.begin_again()
            task = CarefulTask(self.sub, self.partition, stores, **options, check_change=check)
            return self._processed(task, those, transaction)

        (task, batch, collected, changes), refused = run_batch(plain, careful, records, Ordered.without)
        batch = replace(batch, dead_letters=refused)
        letters = [letter.located(self.origins.of) for letter in batch.dead_letters]
        self._write_dead_letters(letters, transaction)
        check_input_complete()
        forwarded = self._parcels_of(collected)
        transaction.commit(
            batch.progress, _passed(forwarded), self._not_repeated(batch.dead_letters), stores.ends(changes)
        )
        task.apply(lambda store: stores.written(store, changes.get(store, 0)))
        due_in_ms = task.due_in_ms(self.clock.now_ms())
        written = Written(
            letters=by_kind(chain(kinds_of(letters), transaction.refused)),
            dropped=task.dropped.total,
            stream_time_ms=task.stream_time.now_ms,
            timer=None if due_in_ms is None else (self.sub.number, due_in_ms),
        )
        return written, forwarded

    def _processed(self, task: Task, records: Ordered, transaction: Transaction) -> _Outcome:
        """Processes and writes all records. Returns the records for shuffles, and how many changes each store has."""
        collected = dict[str, list[Moved]]()
        check_keys = self._key_check()
        for part in records:
            check_keys(part)
            task.process(part)
            # Written part by part: collecting all outputs of a batch would touch new memory.
            self._write(task.take_outputs(), transaction, collected)
        task.advance(self.clock.now_ms())
        batch = task.end_batch()
        self._write(batch.outputs, transaction, collected)
        return (task, batch, collected, self._write_changes(batch, transaction)), batch.dead_letters

    def _check_change(self, transaction: Transaction, change: StoreChange) -> None:
        transaction.check_change(self.work.app.changelogs[change.store].topic, change)

    @property
    def _shuffle_sinks(self) -> list[Sink]:
        return [sink for sink in self.sub.sinks if sink.topic in self.layout.shuffles]

    @property
    def _own_topics(self) -> list[str]:
        """The topics that the records of this app have to go through."""
        return [*self.layout.topics_to_create, *(log.topic for log in self.work.app.changelogs.values())]

    def _not_repeated(self, letters: Iterable[DeadLetter]) -> SourceSpans:
        """The dead letters that a replay has to know: it runs only what is above shuffles, and later."""
        sinks = self._shuffle_sinks
        if not sinks:
            return {}
        run_again = {node.name for node in self.sub.leading_to(sinks).nodes}
        by_the_clock = FutureTimestampError.__name__
        return spans_of(
            letter.record[:3]
            for letter in letters
            if letter.record.offset != NOWHERE
            and (letter.error_class == by_the_clock or letter.operator not in run_again)
        )

    def holder(self, spec: TopologyStore) -> TaskBackend:
        """What holds the rows of one of the task's stores."""
        app = self.work.app
        folder = app.store_dir(self.sub, self.partition) / spec.name
        return task_backend(spec, folder, app.settings, app.app, self.partition)

    def _parcels_of(self, outputs: Outputs) -> Forwarded:
        """The parcels of records that go to shuffles."""
        forwarded = {}
        internal = self.layout.topics_to_create
        [topic, *others] = (source.topic for source in self.sub.sources)
        of_one_partition = topic in self.layout.topics and topic not in internal and not others
        for topic, written in outputs.items():
            sub = self.layout.shuffles[topic]
            count, stage = self.layout.plan.tasks(sub), self.layout.stages[sub.number]
            tasks = self.layout.place(sub, 0) + partitions_of([output[0] or b"" for output in written], count)
            origins = self.origins.numbers(written, of_one_partition=of_one_partition)
            forwarded[topic] = list(parcels_of(stage, tasks, self.partition, topic, written, origins=origins))
        return forwarded

    def _write(self, outputs: Outputs, transaction: Transaction, collected: dict[str, list[Moved]]) -> None:
        """Writes outputs; collects those for a shuffle."""
        repartitions = self.layout.topology.repartition_topics
        for topic, written in outputs.items():
            if topic in self.layout.shuffles:
                collected.setdefault(topic, []).extend(written)
            elif topic in repartitions:
                transaction.write(topic, with_upstream(written, self.partition, self.origins.of, repartitions))
            elif self.work.writes_outputs:
                transaction.write(topic, written)

    def _write_dead_letters(self, letters: Sequence[DeadLetter], transaction: Transaction) -> None:
        app, topic = self.work.app, self.work.app.writer.dead_letters
        if topic is not None and self.work.writes_outputs:
            transaction.write(topic, [dead_letter(letter, app=app.app) for letter in letters])

    def _write_changes(self, batch: Batch, transaction: Transaction) -> dict[str, int]:
        by_store: dict[str, list[Any]] = {}
        for change in batch.changes:
            by_store.setdefault(change.store, []).append(change)
        topics = self.layout.origins(self.sub)
        return {
            store: transaction.change(self.work.app.changelogs[store].topic, self.work.headers(store, topics), changes)
            for store, changes in by_store.items()
        }

    def _key_check(self) -> Callable[[Sequence[RecordFields]], None]:
        """What refuses records whose rows nodes would not find."""
        if not any(map(is_served, self.sub.stores)):
            return lambda _: None
        return KeyCheck(self.sub, self.partition, self.layout.plan.tasks(self.sub), frozenset(self.layout.topics))

    def _forwarded_again(self, records: Ordered, transaction: Transaction) -> Forwarded:
        """Recomputes what a committed attempt passed on to shuffles.

        Raises:
            UnrepeatableBatchError: it would pass on other records than that attempt.
        """
        assert transaction.committed is not None  # noqa: S101 (for the type checker)
        sub, left_out = self.sub.leading_to(self._shuffle_sinks), places_in(transaction.committed.left_out)
        outputs: Outputs = {}
        if sub.nodes:
            plain, careful = (partial(self._forwarded_by, kind, sub) for kind in (Task, CarefulTask))
            outputs, _ = run_batch(plain, careful, records.reaching(sub).leaving_out(left_out), Ordered.without)
        forwarded = self._parcels_of(outputs)
        transaction.check_replay(_passed(forwarded))
        return forwarded

    def _forwarded_by(
        self, kind: type[Task], sub: SubTopology, records: Ordered
    ) -> tuple[Outputs, Sequence[DeadLetter]]:
        collected = dict[str, list[Moved]]()
        with closing(kind(sub, self.partition, MemorySupplier())) as task:
            for part in records:
                task.process(part)
                for topic, outputs in task.take_outputs().items():
                    collected.setdefault(topic, []).extend(outputs)
            return collected, task.end_batch().dead_letters


def _passed(forwarded: Forwarded) -> dict[str, Passed]:
    return {topic: passed(parcels) for topic, parcels in forwarded.items()}


class _LocalStores:
    """The local stores of one task, by name. A `StoreSupplier`."""

    def __init__(self, run: TaskRun) -> None:
        app, self._run = run.work.app, run
        self._logged: dict[str, LocalStore] = {}
        self._others: dict[str, UnloggedStore] = {}
        try:
            for spec in run.sub.stores:
                if spec.options.logging:
                    log = app.changelogs[spec.name]
                    store = LocalStore(spec, run.holder(spec), log, run.partition, run.clock, seeds=app.seeds)
                    self._logged[spec.name] = store
                else:
                    self._others[spec.name] = UnloggedStore(spec.name, run.holder(spec))
        except BaseException:
            self.close()
            raise

    def ends(self, changes: Mapping[str, int]) -> Mapping[str, int]:
        """By changelog, the least offset at which it ends after a batch; `changes` counts those of each store."""
        logs = self._run.work.app.changelogs
        return {logs[name].topic: store.position + changes.get(name, 0) for name, store in self._logged.items()}

    def catch_up(self, committed: Marker | None) -> None:
        """Restores all stores to the ends of what is committed in their changelogs.

        Args:
            committed: the marker of the task's last batch.

        Raises:
            BrokerUnavailableError: the broker doesn't answer.
            OpenTransactionError: a clean-up's transaction stays open and hides what this task has committed.
            LostChangelogError: a changelog has lost records, or the task's marker is lost.
        """
        app, partition = self._run.work.app, self._run.partition
        topics = {name: app.changelogs[name].topic for name in self._logged}
        kafka = app.writer.kafka
        stores = {topic: name for name, topic in topics.items()}
        with reporting(restore_dir(app.settings, app.app)) as report:

            def waits(at: TopicAndPartition) -> None:
                report(Restoring(stores[at[0]], partition, 0, 0, awaits=f"{at[0]}-{at[1]}"))

            ends = committed_ends(kafka, [(topic, partition) for topic in stores], waits)
            for name, store in self._logged.items():
                reached = 0 if committed is None else committed.logs.get(topics[name], 0)
                store.catch_up(kafka, ends[topics[name], partition], report, reached)
        if committed is None:
            self._check_no_rows()
        for other in self._others.values():
            other.catch_up(None if committed is None else self._named(committed.batch_id))

    def _check_no_rows(self) -> None:
        """Checks that a task without a marker has no rows: each batch that writes some writes a marker with them."""
        for name, store in self._logged.items():
            if not is_empty(store.backend):
                slot = self._run.work.app.slot(self._run.sub, self._run.partition)
                msg = (
                    f"topic {slot.markers} has no marker of {slot.name} in partition {slot.partition}, and its store "
                    f"{name} has rows: the topic has lost records, so what the task has committed is not known. Start "
                    "a new generation, which reads the input again (docs/how-to/back-up-and-recover.md)"
                )
                raise LostChangelogError(msg)

    def open(self, name: str) -> BytesStore:
        """An open store."""
        return self._logged[name].backend if name in self._logged else self._others[name].backend

    def written(self, name: str, changes: int) -> Mapping[bytes, bytes | None]:
        """The metadata to write with a store's rows; see `LocalStore.written` and `UnloggedStore.written`."""
        if name in self._logged:
            return self._logged[name].written(changes)
        return self._others[name].written(self._named(self._run.work.batch_id))

    def _named(self, batch_id: int) -> bytes:
        """The name of a batch. Batches of an abandoned checkpoint have other names."""
        return b"%b %d" % (self._run.work.app.slot(self._run.sub, self._run.partition).key, batch_id)

    def close(self) -> None:
        """Closes all stores."""
        for store in self._logged.values():
            store.close()
        for other in self._others.values():
            other.close()
