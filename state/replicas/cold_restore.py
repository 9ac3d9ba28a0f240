"""Restores replicas that are far behind, in parallel worker processes, while the node answers for the others."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from state.kafka.connection import Kafka
from state.replicas.cold_worker import ColdReport, ColdRequest
from state.replicas.replica import Replica
from state.replicas.states import ReplicaId

log = structlog.get_logger(__name__)

_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class ColdRestoreSettings:
    """When to use workers, and how many.

    Attributes:
        threshold_records: a replica that lacks at least this many records is restored in a worker.
        workers: the most processes at a time.
    """

    threshold_records: int = 200_000
    workers: int = 2


class WorkerColdRestore:
    """Starts workers and reads their reports. `restore` is called from the follower's thread only."""

    def __init__(self, root: Path, kafka: Kafka, settings: ColdRestoreSettings | None = None) -> None:
        self._root = root
        self._kafka = kafka
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
                [sys.executable, "-m", "state.replicas.cold_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._workers.add(worker)
            return worker

    def _converse(self, worker: subprocess.Popen[bytes], group: list[Replica]) -> int:
        replicas = {replica.replica_id: replica for replica in group}
        wanted = [(entry.store, entry.partition, replica.topic) for entry, replica in replicas.items()]
        log.info("cold_restore_worker_started", pid=worker.pid, replicas=[str(entry) for entry in replicas])
        with worker:
            if worker.stdin is None or worker.stdout is None:
                return worker.wait()
            try:
                worker.stdin.write(ColdRequest(str(self._root), self._kafka, wanted).encode())
                worker.stdin.flush()
            except BrokenPipeError:
                return worker.wait()
            for line in worker.stdout:
                report = ColdReport.decode(line)
                replicas[ReplicaId(report.store, report.partition)].restored_elsewhere(report.offset, report.records)
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
