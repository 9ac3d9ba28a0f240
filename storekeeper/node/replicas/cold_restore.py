"""Restores replicas that are far behind, in parallel worker processes, while the node answers for the others.

RocksDB belongs to one process at a time, and its client holds Python's lock while it writes. So a restore in threads
of the node would be slow and would block queries. A worker (`python -m storekeeper.node.replicas.cold_restore`) loads
what `seeds` has for the stores, opens them, restores them, closes them and ends; the node opens them again and follows.

A worker's only input is one line of JSON on stdin. It stops when the pipe closes, so it never outlives its node. Its
only output is one line of JSON on stdout per progress report.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson
import structlog

from storekeeper.changelog.listener import ProgressThrottle, RestoreEvent, RestoreListener, RestoreProgress
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings
from storekeeper.changelog.restore import FAR_BEHIND_RECORDS
from storekeeper.clock import Clock, SystemClock
from storekeeper.kafka.connection import Kafka
from storekeeper.node.replicas.follower import Follower
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.node.replicas.seeds import Seeding
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.snapshots.seed_tables import SeedTables
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb_options import RocksDBOptions

log = structlog.get_logger(__name__)

_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class ColdRestoreSettings:
    """When to use workers, and how many. A replica that lacks at least `threshold_records` is restored in a worker."""

    threshold_records: int = FAR_BEHIND_RECORDS
    workers: int = 2


class WorkerColdRestore:
    """Starts workers and reads their reports. `restore` is called from the follower's thread only."""

    def __init__(
        self, root: Path, kafka: Kafka, settings: ColdRestoreSettings | None = None, seeds: SeedTables | None = None
    ) -> None:
        self._root = root
        self._kafka = kafka
        self._seeds = seeds
        self._settings = settings or ColdRestoreSettings()
        self._attempts: dict[ReplicaId, int] = {}
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def takes(self, replica: Replica, remaining: int) -> bool:
        """Whether a replica is far behind, and workers haven't failed with it before."""
        tried = self._attempts.get(replica.replica_id, 0)
        return remaining >= self._settings.threshold_records and tried < _ATTEMPTS

    def restore(self, replicas: list[Replica], give_back: Callable[[Replica], None]) -> None:
        """Spreads the replicas over workers and returns at once."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        for group in spread(replicas, self._settings.workers):
            thread = threading.Thread(target=self._run, args=(group, give_back), name="cold-restore", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Ends the workers and waits for them. They lose only their current batch."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.kill()
        for thread in self._threads:
            thread.join()

    def _run(self, group: list[Replica], give_back: Callable[[Replica], None]) -> None:
        try:
            succeeded = self._restored(group)
        except Exception:
            # No process, or unreadable output: the replicas must be given back, or nobody restores them.
            log.exception("cold_restore_interrupted")
            succeeded = False
        for replica in group:
            tried = self._attempts.get(replica.replica_id, 0)
            self._attempts[replica.replica_id] = 0 if succeeded else tried + 1
            give_back(replica)

    def _restored(self, group: list[Replica]) -> bool:
        worker = self._start()
        if worker is None:
            return False
        try:
            code = self._converse(worker, group)
        finally:
            with self._lock:
                self._workers.discard(worker)
        log.info("cold_restore_worker_ended", pid=worker.pid, exit_code=code)
        return code == 0

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._closed:
                return None
            worker = subprocess.Popen(
                [sys.executable, "-m", "storekeeper.node.replicas.cold_restore"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._workers.add(worker)
            return worker

    def _converse(self, worker: subprocess.Popen[bytes], group: list[Replica]) -> int:
        replicas = {replica.replica_id: replica for replica in group}
        requests = [(entry.store, entry.partition, replica.topic) for entry, replica in replicas.items()]
        log.info("cold_restore_worker_started", pid=worker.pid, replicas=[str(entry) for entry in replicas])
        with worker:
            if worker.stdin is None or worker.stdout is None:
                return worker.wait()
            try:
                worker.stdin.write(ColdRequest(str(self._root), self._kafka, requests, self._seeds).encode())
                worker.stdin.flush()
            except BrokenPipeError:
                return worker.wait()
            for line in worker.stdout:
                report = ColdReport.decode(line)
                replicas[ReplicaId(report.store, report.partition)].restored_in_worker(report.offset, report.records)
            return worker.wait()


def spread(replicas: Iterable[Replica], groups: int) -> list[list[Replica]]:
    """Deals replicas into at most `groups` groups, the furthest behind first, each to the group with least to do."""
    dealt: list[list[Replica]] = [[] for _ in range(groups)]
    load = [0] * groups
    for replica in sorted(replicas, key=lambda entry: entry.offset_lag or 0, reverse=True):
        least = load.index(min(load))
        dealt[least].append(replica)
        load[least] += replica.offset_lag or 0
    return [group for group in dealt if group]


_REPORT_EVERY_S = 0.5
_EXIT_ORPHANED = 3
# Large batches hold fewer keys than records. They cost memory, which the second figure bounds.
_BATCH_RECORDS = 500_000
_BATCH_BYTES = 192 << 20
_QUEUE_KBYTES = 32_768


@dataclass(frozen=True, slots=True)
class ColdRequest:
    """The replicas that a worker should restore: (store, partition, changelog topic) under `root`, with `seeds`."""

    root: str
    kafka: Kafka
    replicas: list[tuple[str, int, str]]
    seeds: SeedTables | None = None

    def encode(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(asdict(self), default=str) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Reads what `encode` wrote, without what concerns new topics."""
        fields = orjson.loads(line)
        given = fields["kafka"]
        properties = given["properties"] and Path(given["properties"])
        kafka = Kafka(str(given["bootstrap"]), properties, cluster=str(given["cluster"]))
        replicas = [(str(store), int(partition), str(topic)) for store, partition, topic in fields["replicas"]]
        seeds = fields["seeds"] and SeedTables(**fields["seeds"])
        return cls(str(fields["root"]), kafka, replicas, seeds)


@dataclass(frozen=True, slots=True)
class ColdReport:
    """How far a worker is with one replica."""

    store: str
    partition: int
    offset: int
    records: int

    def encode(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(asdict(self)) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Reads what `encode` wrote."""
        return cls(**orjson.loads(line))


def reporting_listener(clock: Clock) -> RestoreListener:
    """Reports progress to the node, at most twice a second per replica."""
    throttle = ProgressThrottle(clock, _REPORT_EVERY_S)

    def listen(event: RestoreEvent, progress: RestoreProgress) -> None:
        # The node started the restore itself.
        if event is not RestoreEvent.STARTED and throttle.lets_through(event, progress):
            report = ColdReport(progress.store, progress.partition, progress.offset, progress.records)
            sys.stdout.buffer.write(report.encode())
            sys.stdout.buffer.flush()

    return listen


def restore(request: ColdRequest) -> None:
    """Restores the requested replicas, as far as it can, and closes the stores."""
    clock = SystemClock()
    place = RocksDBStorage(Path(request.root), clock, RocksDBOptions(profile=Profile.WRITE_HEAVY))
    listener = reporting_listener(clock)
    wanted = [(ReplicaId(store, partition), topic) for store, partition, topic in request.replicas]
    settings = ReaderSettings(
        request.kafka,
        max_batch_records=_BATCH_RECORDS,
        max_batch_bytes=_BATCH_BYTES,
        linger_s=0.2,
        queue_kbytes=_QUEUE_KBYTES,
    )
    if request.seeds is not None:
        reader = ChangelogReader(settings)
        try:
            Seeding(request.seeds, place, reader, clock).load(wanted)
        finally:
            reader.close()
    replicas = [Replica(replica, topic, storage=place, clock=clock, listener=listener) for replica, topic in wanted]
    Follower(replicas, lambda: ChangelogReader(settings), clock).run_until_settled()


def main() -> None:
    """Reads the request, restores, exits 0; exits at once when the node goes away."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A restore makes millions of objects and no cycles: garbage collection took a sixth of its time.
    gc.disable()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    request = ColdRequest.decode(_first_line())
    threading.Thread(target=_exit_with_node, name="node-watch", daemon=True).start()
    restore(request)


def _first_line() -> bytes:
    # A daemon thread must not hold Python's buffered stdin at exit, so the pipe is read directly.
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(0, 65_536)
        if not read:
            raise SystemExit(_EXIT_ORPHANED)
        line += read
    return line


def _exit_with_node() -> None:
    while os.read(0, 1):
        pass
    os._exit(_EXIT_ORPHANED)


if __name__ == "__main__":
    main()
