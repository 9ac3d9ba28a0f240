"""Global tables: each worker process has its own copy, and brings it up to date before each task.

A copy is a folder that the process locks: RocksDB lets only one process open a store. A new process takes over
a copy that no process has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import Any

import structlog

from storekeeper.changelog.bounded_reader import partitions_of, read_range
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.log_bounds import END, FIRST, offsets_of
from storekeeper.changelog.reader import TopicFacts
from storekeeper.changelog.restore import LogState, RestoreAction, RestorePlan, plan_restore
from storekeeper.clock import Clock
from storekeeper.errors import StorageError, StoreCorruptedError
from storekeeper.kafka.connection import Kafka
from storekeeper.stores.rocksdb_sealed import SealedSupplier
from storekeeper.topology.careful_task import CarefulTask
from storekeeper.topology.failures import is_of_record
from storekeeper.topology.plan import Topology
from storekeeper.topology.records import Record
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.task import Task

_BATCH_RECORDS = 20_000

_log = structlog.get_logger(__name__)


class GlobalTableCopy:
    """This process's copy of one global table. Not thread-safe.

    The copy has a checkpoint for each partition of the topic, and `plan_restore` decides whether they fit the topic. A
    copy that doesn't fit, or is damaged, is removed: the whole topic is read again.
    """

    def __init__(self, sub: SubTopology, topic: TopicFacts, folder: Path, kafka: Kafka, clock: Clock) -> None:
        self._sub = sub
        [spec] = sub.stores
        self.name = spec.name
        self._topic = topic
        self._kafka = kafka
        self._clock = clock
        self._partitions: Sequence[int] = ()
        self._folder, self._lock = _locked_copy(folder)
        try:
            self._task = self._opened()
        except StoreCorruptedError as error:
            self._remove(str(error))

    def catch_up(self) -> None:
        """Reads the topic's records that the copy doesn't have, up to the current end offsets.

        Raises:
            BrokerUnavailableError: the broker doesn't answer.
            StorageError: the copy was damaged and is removed. The next call reads the whole topic.
        """
        try:
            self._follow()
        except StoreCorruptedError as error:
            raise self._damaged(error) from error

    def get(self, key: Any) -> Any:
        """The row of a key, or None.

        Raises:
            StorageError: as `catch_up`.
        """
        try:
            return self._task.store(self.name).get(key)
        except StoreCorruptedError as error:
            raise self._damaged(error) from error

    def close(self) -> None:
        """Closes the copy. Another may open it then."""
        self._task.close()
        os.close(self._lock)

    def _follow(self) -> None:
        # The topic may have more partitions by now.
        self._partitions = partitions_of(self._kafka, self._topic.topic)
        now_ms, starts, ends = self._clock.now_ms(), self._offsets(FIRST), self._offsets(END)
        plans = self._plans(starts, ends, now_ms)
        misfit = next((plan for plan in plans.values() if plan.action is RestoreAction.WIPE), None)
        if misfit is not None:
            self._task.close()
            self._remove(misfit.reason.value)
            plans = self._plans(starts, ends, now_ms)
        for at, plan in plans.items():
            self._restore(self._checkpoint(at) or self._whole(at, plan.offset, now_ms), plan.end_offset)
        self._apply(self._task, *(self._whole(at, end, now_ms) for at, end in ends.items()))

    def _plans(self, starts: Mapping[int, int], ends: Mapping[int, int], now_ms: int) -> dict[int, RestorePlan]:
        log, checkpoints = self._topic, {at: self._checkpoint(at) for at in ends}
        # Rows and checkpoints are written together.
        empty = not any(checkpoints.values())
        plans = {}
        for at, checkpoint in checkpoints.items():
            state = LogState(log.topic, log.topic_id, at, starts[at], ends[at], log.delete_retention_ms)
            behind_ms = 0 if checkpoint is None else now_ms - checkpoint.whole_at_ms
            plans[at] = plan_restore(checkpoint, empty=empty, log=state, behind_ms=behind_ms)
        return plans

    def _restore(self, checkpoint: Checkpoint, end: int) -> None:
        records = self._read(checkpoint.partition, checkpoint.offset, end)
        while part := list(islice(records, _BATCH_RECORDS)):
            checkpoint = checkpoint.moved(part[-1].offset + 1)
            try:
                self._task.process(part)
                self._apply(self._task, checkpoint)
            except Exception as error:
                if not is_of_record(error):
                    raise
                self._apply_carefully(part, checkpoint)

    def _apply_carefully(self, records: Sequence[Record], checkpoint: Checkpoint) -> None:
        """The same without the records that can't be rows."""
        self._task.close()
        try:
            with closing(CarefulTask(self._sub, 0, SealedSupplier(self._folder))) as careful:
                careful.process(records)
                self._apply(careful, checkpoint)
        finally:
            self._task = self._opened()

    def _apply(self, task: Task | CarefulTask, *checkpoints: Checkpoint) -> None:
        for letter in task.end_batch().dead_letters:
            place = {"partition": letter.record.partition, "offset": letter.record.offset}
            _log.warning("global_record_left_out", topic=self._topic.topic, why=letter.reason, **place)
        task.apply(lambda _: {_metadata_key(one.partition): one.encode() for one in checkpoints})

    def _checkpoint(self, partition: int) -> Checkpoint | None:
        stored = self._task.metadata(self.name, _metadata_key(partition))
        return None if stored is None else Checkpoint.decode(stored)

    def _whole(self, partition: int, offset: int, now_ms: int) -> Checkpoint:
        return Checkpoint(self._topic.topic, self._topic.topic_id, partition, offset, now_ms)

    def _opened(self) -> Task:
        return Task(self._sub, 0, SealedSupplier(self._folder))

    def _remove(self, why: str) -> None:
        """Puts an empty copy in the place of the closed one, which holds nothing that the topic doesn't."""
        _log.warning("global_table_emptied", store=self.name, why=why)
        shutil.rmtree(self._folder / self.name)
        self._task = self._opened()

    def _damaged(self, error: StoreCorruptedError) -> StorageError:
        """Removes the damaged copy; returns what to raise. To its caller, `error` would mean the task's own stores."""
        self._task.close()
        self._remove(str(error))
        msg = f"a copy of global table {self.name} was damaged ({error}): the next attempt makes it again"
        return StorageError(msg)

    def _offsets(self, which: int) -> dict[int, int]:
        offsets = offsets_of(self._kafka, {(self._topic.topic, at): which for at in self._partitions})
        return {at: offset for (_, at), offset in offsets.items()}

    def _read(self, partition: int, start: int, end: int) -> Iterator[Record]:
        topic = self._topic.topic
        for message in read_range(self._kafka, topic, partition, start, end):
            _, timestamp_ms = message.timestamp()
            yield Record(topic, partition, message.offset() or 0, timestamp_ms, message.key(), message.value())


def global_tables(
    topology: Topology, topics: Mapping[str, TopicFacts], folder: Path, kafka: Kafka, clock: Clock
) -> dict[str, GlobalTableCopy]:
    """This process's copies of all global tables of a topology, by store.

    Args:
        topology: the topology.
        topics: by store, the topic that it is read from.
        folder: where the copies are.
        kafka: the Kafka.
        clock: the source of the time.
    """
    tables = {sub.stores[0].name: sub for sub in topology.sub_topologies if sub.is_global}
    return {name: GlobalTableCopy(sub, topics[name], folder / name, kafka, clock) for name, sub in tables.items()}


def _metadata_key(partition: int) -> bytes:
    return b"%s-%d" % (METADATA_KEY, partition)


def _locked_copy(folder: Path) -> tuple[Path, int]:
    """Locks the first copy that no process holds; returns its folder and the lock's file descriptor."""
    for number in count():
        copy = folder / f"copy-{number}"
        copy.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(copy / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return copy, lock
    raise AssertionError
