"""The process that restores stores that are far behind: `python -m state.replicas.cold_worker`.

RocksDB belongs to one process at a time, and its client holds Python's lock while it writes. So a restore in threads
of the node would be slow and would block queries. A worker opens the stores, restores them, closes them and ends; the
node opens them again and follows.

Its only input is one line of JSON on stdin. It stops when the pipe closes, so it never outlives its node. Its only
output is one line of JSON on stdout per progress report.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson
import structlog

from state.changelog.listener import ProgressThrottle, RestoreEvent, RestoreListener, RestoreProgress
from state.changelog.reader import ChangelogReader, ReaderSettings
from state.clock import Clock, SystemClock
from state.kafka.connection import Kafka
from state.replicas.follower import Follower
from state.replicas.replica import Replica
from state.replicas.replica_storage import RocksDBStorage
from state.replicas.states import ReplicaId
from state.stores.rocksdb_options import Profile, RocksDBOptions

_REPORT_EVERY_S = 0.5
_EXIT_ORPHANED = 3
# Large batches hold fewer keys than records. They cost memory, which the second figure bounds.
_BATCH_RECORDS = 500_000
_BATCH_BYTES = 192 << 20
_QUEUE_KBYTES = 32_768


@dataclass(frozen=True, slots=True)
class ColdRequest:
    """The replicas that a worker should restore: (store, partition, changelog topic) under `root`."""

    root: str
    kafka: Kafka
    replicas: list[tuple[str, int, str]]

    def encode(self) -> bytes:
        """One line of JSON."""
        return orjson.dumps(asdict(self), default=str) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Reads what `encode` wrote, without what concerns new topics."""
        fields = orjson.loads(line)
        kafka = fields["kafka"]
        properties = kafka["properties"] and Path(kafka["properties"])
        replicas = [(str(store), int(partition), str(topic)) for store, partition, topic in fields["replicas"]]
        return cls(str(fields["root"]), Kafka(str(kafka["bootstrap"]), properties), replicas)


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
    replicas = [
        Replica(ReplicaId(store, partition), topic, storage=place, clock=clock, listener=listener)
        for store, partition, topic in request.replicas
    ]
    settings = ReaderSettings(
        request.kafka,
        max_batch_records=_BATCH_RECORDS,
        max_batch_bytes=_BATCH_BYTES,
        linger_s=0.2,
        queue_kbytes=_QUEUE_KBYTES,
    )
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
