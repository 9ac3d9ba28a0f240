"""Global tables: each worker process has its own copy, and brings it up to date before each task.

A copy is a folder that the process locks: RocksDB lets only one process open a store. A new process takes over
a copy that no process has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson
import structlog

from state.changelog.bounded_reader import read_range
from state.changelog.log_bounds import END, FIRST, offsets_of
from state.kafka.connection import Kafka
from state.stores.suppliers import RocksDBSupplier
from state.topology.plan import Plan, SubTopology
from state.topology.records import Record
from state.topology.task import Task

_POSITION = b"global-position"
_BATCH_RECORDS = 20_000

_log = structlog.get_logger(__name__)


class GlobalTableCopy:
    """This process's copy of one global table. Not thread-safe.

    Args:
        sub: the sub-topology that reads the topic.
        partitions: the topic's number of partitions.
        folder: where the copies are.
        kafka: the Kafka.
    """

    def __init__(self, sub: SubTopology, partitions: int, folder: Path, kafka: Kafka) -> None:
        self._sub = sub
        [source] = sub.sources
        [spec] = sub.stores
        self._topic = source.topic
        self.name = spec.name
        self._partitions = range(partitions)
        self._kafka = kafka
        self._folder, self._lock = _locked_copy(folder)
        self._open()

    def catch_up(self) -> None:
        """Reads the topic's records that the copy doesn't have, up to the current end offsets.

        Raises:
            BrokerUnavailableError: the broker doesn't answer.
        """
        ends = self._offsets(END)
        if ends == self._position:
            return
        starts = self._offsets(FIRST)
        if not all(starts[at] <= self._position.get(at, starts[at]) <= ends[at] for at in self._partitions):
            _log.warning("global_table_emptied", store=self.name, why="the topic holds other records than before")
            self._task.close()
            shutil.rmtree(self._folder / self.name)
            self._open()
        for at in self._partitions:
            records = self._read(at, self._position.get(at, starts[at]), ends[at])
            while part := list(islice(records, _BATCH_RECORDS)):
                self._task.process(part)
                self._apply(at, part[-1].offset + 1)
            self._apply(at, ends[at])

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        return self._task.store(self.name).get(key)

    def _open(self) -> None:
        self._task = Task(self._sub, 0, RocksDBSupplier(self._folder))
        stored = self._task.metadata(self.name, _POSITION)
        kept = {} if stored is None else orjson.loads(stored)
        self._position: dict[int, int] = {int(at): end for at, end in kept.items()}

    def _apply(self, partition: int, position: int) -> None:
        for letter in self._task.end_batch().dead_letters:
            _log.warning("global_record_left_out", topic=self._topic, partition=partition, offset=letter.record.offset)
        self._position[partition] = position
        encoded = orjson.dumps(self._position, option=orjson.OPT_NON_STR_KEYS)
        self._task.apply(lambda _: {_POSITION: encoded})

    def _offsets(self, which: int) -> dict[int, int]:
        found = offsets_of(self._kafka, {(self._topic, at): which for at in self._partitions})
        return {at: offset for (_, at), offset in found.items()}

    def _read(self, partition: int, start: int, end: int) -> Iterator[Record]:
        for message in read_range(self._kafka, self._topic, partition, start, end):
            _, timestamp_ms = message.timestamp()
            yield Record(self._topic, partition, message.offset() or 0, timestamp_ms, message.key(), message.value())


def global_tables(plan: Plan, folder: Path, kafka: Kafka) -> dict[str, GlobalTableCopy]:
    """This process's copies of all global tables of a topology, by store."""
    tables = [
        GlobalTableCopy(sub, plan.partitions[sub.sources[0].topic], folder / sub.stores[0].name, kafka)
        for sub in plan.topology.sub_topologies
        if sub.is_global
    ]
    return {table.name: table for table in tables}


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
