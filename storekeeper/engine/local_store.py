"""A task's local stores: replicas of their changelogs that the task itself writes.

A store's metadata hold its offset in the changelog, in the same write as its rows. Each commit adds the batch's changes
and Kafka's commit marker to the changelog, so the least possible end offset is known. If the actual end lies behind it,
there was another writer: a clean-up, an abandoned attempt, or this task on another machine. Then the store reads on
from its offset. If the actual end lies in front of it, the changelog has lost records.

A store that is far behind, such as a new one, may begin with the rows of its sealed table: see `changelog.seeds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import structlog
from confluent_kafka import Message

from storekeeper.apps.errors import LostChangelogError
from storekeeper.apps.topology_app import is_served
from storekeeper.changelog.bounded_reader import first_offset, read_range
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.reader import TopicFacts
from storekeeper.changelog.restore import FAR_BEHIND_RECORDS, LogState, RestoreAction, RestorePlan, plan_restore
from storekeeper.changelog.seeds import Behind, SeedRow, SeedSource, load_seeds
from storekeeper.changelog.skipped import headers_of, skip_reason
from storekeeper.clock import Clock
from storekeeper.engine.restore_progress import Restoring
from storekeeper.engine.store_backends import TaskBackend, emptied, opened, put_aside
from storekeeper.errors import StoreCorruptedError
from storekeeper.kafka.connection import Kafka
from storekeeper.stores.bytes_store import BytesStore, is_empty
from storekeeper.topology.records import StoreChange
from storekeeper.topology.task_stores import restore
from storekeeper.topology.topology_store import TopologyStore

_OWN_END = b"changelog-own-end"
_RESTORE_RECORDS = 20_000

_log = structlog.get_logger(__name__)


class LocalStore:
    """One store of one task, open and equal to its changelog. Not thread-safe.

    Attributes:
        backend: its rows.
    """

    def __init__(
        self, spec: TopologyStore, holder: TaskBackend, changelog: TopicFacts, partition: int, clock: Clock, *,
        seeds: SeedSource | None = None,
    ) -> None:  # fmt: skip
        self._spec = spec
        self._holder = holder
        self._changelog = changelog
        self._partition = partition
        self._clock = clock
        self._seeds = seeds
        self.backend = opened(holder, spec.name)
        self._position = 0
        self._whole_at_ms = 0

    @property
    def position(self) -> int:
        """The end of the changelog when the store caught up with it."""
        return self._position

    def catch_up(self, kafka: Kafka, end: int, report: Callable[[Restoring], None], reached: int = 0) -> None:
        """Restores the changelog records below `end` that the store doesn't have.

        Args:
            kafka: the Kafka.
            end: the end of what is committed in the changelog; see `committed_ends`.
            report: called with the progress.
            reached: an offset that the changelog had reached, as the task's marker has it: a new store knows none.

        Raises:
            BrokerUnavailableError: the broker doesn't answer.
            LostChangelogError: the changelog has lost records that the store holds or needs.
        """
        log, now_ms = self._changelog, self._clock.now_ms()
        if end < reached:
            raise self._lost("ends", end, f"the task's marker has it at {reached}")
        checkpoint, own_end = self._held()
        if checkpoint is not None and (checkpoint.topic_id, checkpoint.partition) == (log.topic_id, self._partition):
            if own_end > end:
                raise self._lost("ends", end, f"the store had followed it to {own_end}")
            if own_end == end:
                self._position, self._whole_at_ms = end, now_ms
                return
        start = first_offset(kafka, log.topic, self._partition)
        state = LogState(log.topic, log.topic_id, self._partition, start, end, log.delete_retention_ms)
        plan = self._planned(checkpoint, state)
        if start > 0 and plan.action is not RestoreAction.RESUME:  # compaction doesn't move the first offset
            raise self._lost("begins", start, "the store has to be restored from 0")
        # Loading a seed empties the store, so it must be possible to restore it without one.
        if start == 0 and plan.remaining >= FAR_BEHIND_RECORDS:
            self._seed(state, plan.offset, report)
            checkpoint, _ = self._held()
            plan = self._planned(checkpoint, state)
        if plan.action is RestoreAction.WIPE:
            _log.warning("local_store_emptied", store=self._spec.name, partition=self._partition, why=plan.reason.value)
            self._empty()
        resumed = checkpoint if plan.action is RestoreAction.RESUME else None
        self._whole_at_ms = now_ms if resumed is None else resumed.whole_at_ms
        self._read(kafka, plan.offset, end, now_ms, report)
        self._position = end

    def written(self, changes: int) -> Mapping[bytes, bytes | None]:
        """The metadata to write with a batch's rows, for `changes` changelog records in the committed transaction."""
        end = self._position + changes + 1 if changes else self._position
        return self._marks(self._position, end)

    def close(self) -> None:
        """Closes the store."""
        self._holder.close(self.backend)

    def _planned(self, checkpoint: Checkpoint | None, log: LogState) -> RestorePlan:
        behind_ms = 0 if checkpoint is None else self._clock.now_ms() - checkpoint.whole_at_ms
        return plan_restore(checkpoint, empty=is_empty(self.backend), log=log, behind_ms=behind_ms)

    def _seed(self, log: LogState, position: int, report: Callable[[Restoring], None]) -> None:
        """Begins with the newest sealed table if it can be used. A failure may leave rows without a checkpoint."""
        name, partition = self._spec.name, self._partition
        if self._seeds is None:
            return
        why = _why_without_seeds(self._spec)
        if why is not None:
            _log.info("store_not_seeded", store=name, topic=log.topic, partition=partition, why=why)
            return
        lacking = log.end_offset - position

        def progress(done: int, total: int) -> None:
            report(Restoring(name, partition, lacking * done // total, lacking))

        behind = Behind(log, position, self._empty, self._write_seed, self._complete_seed)
        load_seeds(self._seeds, name, [behind], self._clock, progress)

    def _write_seed(self, rows: Sequence[SeedRow], _schema_version: int) -> None:
        restore(self._spec, self.backend, (StoreChange(self._spec.name, *row) for row in rows))

    def _complete_seed(self, checkpoint: Checkpoint) -> None:
        self._whole_at_ms = checkpoint.whole_at_ms
        self.backend.write((), self._marks(checkpoint.offset, checkpoint.offset))

    def _read(self, kafka: Kafka, start: int, end: int, now_ms: int, report: Callable[[Restoring], None]) -> None:
        messages = read_range(kafka, self._changelog.topic, self._partition, start, end)
        while part := list(islice(messages, _RESTORE_RECORDS)):
            reached = (part[-1].offset() or 0) + 1
            restore(self._spec, self.backend, _changes(self._spec.name, part), self._marks(reached, reached))
            report(Restoring(self._spec.name, self._partition, reached - start, end - start))
        self._whole_at_ms = now_ms
        self.backend.write((), self._marks(end, end))

    def _marks(self, offset: int, own_end: int) -> Mapping[bytes, bytes]:
        log = self._changelog
        checkpoint = Checkpoint(log.topic, log.topic_id, self._partition, offset, self._whole_at_ms)
        return {METADATA_KEY: checkpoint.encode(), _OWN_END: b"%d" % own_end}

    def _held(self) -> tuple[Checkpoint | None, int]:
        """The store's checkpoint, and the least offset at which its changelog can end."""
        try:
            position = position_of(self.backend)
        except StoreCorruptedError as error:
            self._holder.close(self.backend)
            put_aside(self._holder, self._spec.name, error)
            self.backend = opened(self._holder, self._spec.name)
            return None, 0
        return (None, 0) if position is None else position

    def _lost(self, how: str, offset: int, why: str) -> LostChangelogError:
        return LostChangelogError.of(self._changelog.topic, self._partition, f"{how} at {offset}", why)

    def _empty(self) -> None:
        self.backend = emptied(self._holder, self.backend, self._spec.name)


def position_of(backend: BytesStore) -> tuple[Checkpoint, int] | None:
    """A local store's checkpoint, and the least offset at which its changelog can end; None if it has none yet.

    Raises:
        StoreCorruptedError: they can't be read.
    """
    stored, own_end = backend.metadata(METADATA_KEY), backend.metadata(_OWN_END)
    if stored is None:
        return None
    checkpoint = Checkpoint.decode(stored)
    return checkpoint, max(checkpoint.offset, int(own_end or 0))


def _why_without_seeds(spec: TopologyStore) -> str | None:
    """Why a store can't begin with a table's rows; None if it can."""
    if spec.options.max_rows is not None:
        return "a bounded store has its rows in the order of their use, which a table does not keep"
    return None if is_served(spec) else "only stores that nodes serve have tables"


def _changes(store: str, messages: list[Message]) -> Iterator[StoreChange]:
    """The rows and tombstones in changelog records. An invalid row deletes its key, as for any reader."""
    for message in messages:
        key, value, (_, timestamp_ms) = message.key(), message.value(), message.timestamp()
        if key is None:
            continue
        is_row = value is not None and skip_reason(key, value, timestamp_ms, headers_of(message)) is None
        yield StoreChange(store, key, value if is_row else None, timestamp_ms)
