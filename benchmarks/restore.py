"""Cold restore of a changelog into RocksDB beside Kafka Streams: `make bench-restore`.

Both restore the same topic, headers and all, in turns. Ours is timed from the request to the worker processes until
every store is open again in the node's process; the peer from its first restore event to its last, so that the JVM's
start is not held against it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import Measure, write_results
from harness.broker import start_broker
from harness.changelog_writer import KafkaChangelogWriter
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.listener import logging_listener
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings
from storekeeper.clock import SystemClock
from storekeeper.kafka.connection import Kafka
from storekeeper.node.replicas.cold_restore import ColdRestoreSettings, WorkerColdRestore
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.snapshots.seed_tables import SeedTables

PEER_JARS = Path(__file__).parents[1] / ".jars" / "kafka-streams"
TOPIC = "restore-benchmark"
PARTITIONS = 4
HEADERS = ChangelogHeaders(1, 17, 1, {"pos": {0: (0, 1000), 1: (0, 1000)}})


def rows(records: int, keys: int) -> Iterator[tuple[bytes, bytes]]:
    """Updates of random customers, as the loyalty app writes them."""
    chosen = random.Random(1)
    for number in range(records):
        card = b"%010d" % chosen.randrange(keys)
        points = b"%d.%04d" % (number % 100_000, number % 10_000)
        yield (
            card,
            b'{"CustomerCardNo":"%b","TotalLoyaltyPoints":%b,"InvoiceCount":%d,"LastInvoiceTime":1700000000%03d}'
            % (card, points, number % 50, number % 1000),
        )


def fill(bootstrap: str, records: int, keys: int) -> None:
    """Writes the changelog."""
    with KafkaChangelogWriter(bootstrap, TOPIC) as writer:
        writer.write(rows(records, keys), HEADERS)


def restore_ours(kafka: Kafka, root: Path, workers: int, seeds: SeedTables | None = None) -> float:
    """Records a second of a restore from nothing, workers' start and the stores' reopening included."""
    clock = SystemClock()
    storage = RocksDBStorage(root, clock)
    reader = ChangelogReader(ReaderSettings(kafka))
    facts = reader.facts(TOPIC)
    logs = [reader.log_state(facts, partition) for partition in range(PARTITIONS)]
    replicas = [
        Replica(ReplicaId("rewards", partition), TOPIC, storage=storage, clock=clock, listener=logging_listener(clock))
        for partition in range(PARTITIONS)
    ]
    cold = WorkerColdRestore(root, kafka, ColdRestoreSettings(threshold_records=1, workers=workers), seeds)
    back = threading.Semaphore(0)

    began = time.perf_counter()
    for replica, log in zip(replicas, logs, strict=True):
        replica.open(log)
        replica.restore_in_worker()
    cold.restore(replicas, lambda _: back.release())
    for _ in replicas:
        back.acquire()
    for replica, log in zip(replicas, logs, strict=True):
        replica.open(log)
    elapsed = time.perf_counter() - began

    assert all(replica.serving for replica in replicas), "a worker failed: see its messages above"
    records = sum(log.end_offset - log.start_offset for log in logs)
    cold.close()
    reader.close()
    for replica in replicas:
        replica.close()
    return records / elapsed


def restore_peer(bootstrap: str, root: Path) -> float:
    """Records a second of Kafka Streams."""
    command = ["java", "-Xmx2g", "-cp", f"{PEER_JARS}/*", "peer.Restore", bootstrap, TOPIC, str(root), "0"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(output.splitlines()[-1])
    return float(report["records"] / report["millis"] * 1000)


def main() -> None:
    """Runs the benchmark and writes its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="restore-"))
    broker = start_broker(folder / "broker")
    try:
        broker.create_topic(TOPIC, PARTITIONS, {"cleanup.policy": "compact", "segment.bytes": str(1 << 30)})
        fill(broker.bootstrap, arguments.records, arguments.keys)
        ours: list[float] = []
        peer: list[float] = []
        for run in range(arguments.runs):
            ours.append(restore_ours(broker.kafka, folder / f"ours-{run}", arguments.workers))
            peer.append(restore_peer(broker.bootstrap, folder / f"peer-{run}"))
            print(f"run {run}: ours {ours[-1]:,.0f} records/s, Kafka Streams {peer[-1]:,.0f}")
    finally:
        broker.stop()
        shutil.rmtree(folder)
    measure = Measure("restore", "records/s", ours, peer, "Kafka Streams 4.2 global table")
    settings = {name: value for name, value in vars(arguments).items() if name != "runs"}
    print(write_results("restore", [measure], settings))


if __name__ == "__main__":
    main()
