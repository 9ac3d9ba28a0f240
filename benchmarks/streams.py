"""One small app beside Kafka Streams, Quix Streams and plain PySpark: what `make bench-app` and others share.

Each side gets a topic of its own. It warms up on some events; then all others become visible at once, by one
transaction. The rate counts until all of them are processed: for us and plain PySpark from the plan of the first batch
to the last commit of the query, for Quix Streams to the last commit of its group, for Kafka Streams from the first
record consumed to the last. All are exactly once but plain PySpark, whose Kafka sink is at least once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition

from benchmarks.plain_spark import TOTALS
from benchmarks.processor_time import processor_time, profile, spent_since
from benchmarks.results import Measure, write_results
from benchmarks.rounds import run_rounds
from benchmarks.stream_apps import EVENTS, JOINED, NAMES
from harness.broker import Broker, start_broker
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.topics import Topics
from storekeeper.program import storekeeper_command

PEER_JARS = Path(__file__).parents[1] / ".jars" / "kafka-streams"
QUIX = Path(__file__).parents[1] / ".venv-quix" / "bin" / "python"
QUIX_APPS = Path(__file__).parent / "quix_streams" / "streams.py"
PARTITIONS = 4
SETTINGS = {
    "trigger_interval_ms": "100",
    # A backlog in batches of seconds: the fewer they are, the less often each key's row is written.
    "max_offsets_per_trigger": "400000",
    # A task for each partition: what waits for the broker leaves the cores to others.
    "spark_master": "local[4]",
}
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g")
PEERS = {
    "kafka_streams": "Kafka Streams 4.2, 2 threads",
    "quix": "Quix Streams 3.28, 2 processes",
    "plain_spark": "PySpark transformWithState, at least once",
}
_MS_BETWEEN = 20
"""Of event time between two events: 1.5 million of them are eight hours and a third."""
_SLOW_SHARE = 0.2
"""Of the events, for a peer that would need many minutes for all."""
_PATIENCE_S = 600
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """Events: `warm_up` and then `timed`, of `keys` keys."""

    keys: int
    warm_up: int
    timed: int

    def events(self, first: int, end: int) -> Iterator[tuple[bytes, bytes, int]]:
        """Key, value and timestamp of some events. The same arguments give the same bytes."""
        rng, begin_ms = random.Random(first), int(time.time() * 1000) - (self.warm_up + self.timed) * _MS_BETWEEN
        for number in range(first, end):
            key = b"key-%d" % rng.randrange(self.keys)
            yield key, b'{"Amount":%d}' % (number % 100), begin_ms + number * _MS_BETWEEN


class SparkCheckpoint(BatchCheckpoint):
    """The checkpoint of a query of Spark's, read as ours is."""

    def end_position(self, batch_id: int) -> Position:
        """A version, metadata, and the end offsets of the one source are a line each."""
        _, _, source = (self.path / "offsets" / str(batch_id)).read_bytes().splitlines()
        return Position.from_json(source)


@dataclass(slots=True)
class Bench:
    """A broker, a folder, and what is measured."""

    broker: Broker
    folder: Path
    app: str
    load: Load
    resident_mb: list[float] = field(default_factory=list)
    """Of our workers, once all events are processed."""
    spent: dict[str, float] = field(default_factory=dict)
    """Processor time of our app and of the broker, while the timed events were processed."""
    _runs: int = 0

    def ours(self) -> float:
        """Events a second of our app."""
        run_dir = self._next("ours")
        app = f"benchmarks.stream_apps:{ {'totals': 'APP', 'windows': 'WINDOWS', 'join': 'JOIN'}[self.app] }"
        name = {"totals": "bench_app", "windows": "bench_windows", "join": "bench_join"}[self.app]
        checkpoint = BatchCheckpoint(run_dir / "checkpoints" / name / "gen-1")
        with running(storekeeper_command("run", app), run_dir, self._environment(run_dir)) as process:
            rate, self.spent = self._timed_batches(checkpoint, process.pid)
            self.resident_mb.append(resident_mb(process.pid))
        return rate

    def plain_spark(self) -> float:
        """Events a second of PySpark's `transformWithState`."""
        run_dir = self._next("plain-spark")
        command: list[str | Path] = [sys.executable, "-m", "benchmarks.plain_spark", self.broker.bootstrap, run_dir]
        checkpoint = SparkCheckpoint(run_dir / "checkpoint")
        with running(command, run_dir, self._environment(run_dir)) as process:
            return self._timed_batches(checkpoint, process.pid, _SLOW_SHARE)[0]

    def quix(self) -> float:
        """Events a second of Quix Streams, two processes."""
        folder = self._next("quix")
        group = f"quix-{self.app}-{self._runs}"
        arguments: list[str | Path] = [QUIX, QUIX_APPS, self.app, self.broker.bootstrap, group]
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": group})
        with (
            closing(consumer),
            running([*arguments, folder / "state-0", EVENTS], folder / "0", {}),
            running([*arguments, folder / "state-1", EVENTS], folder / "1", {}),
        ):
            self._await_members(group, 2)
            places = [TopicPartition(EVENTS, number) for number in range(PARTITIONS)]
            return self._timed(lambda: {place.partition: place.offset for place in consumer.committed(places, 30)})

    def kafka_streams(self) -> float:
        """Events a second of Kafka Streams, two threads."""
        folder = self._next("kafka-streams")
        self._publish_warm_up()
        self._publish_at_once(self.load.timed)
        count = (str(self.load.warm_up + self.load.timed), str(self.load.warm_up))
        command: list[str | Path] = [
            "java",
            "-cp",
            f"{PEER_JARS}/*",
            "peer.Streams",
            self.app,
            self.broker.bootstrap,
            folder,
            EVENTS,
        ]
        done = subprocess.run([*command, *count], check=True, capture_output=True, text=True, timeout=_PATIENCE_S)
        report = json.loads(done.stdout.splitlines()[-1])
        return float(report["records"] / report["millis"] * 1000)

    def _timed(self, position: Callable[[], dict[int, int]]) -> float:
        self._publish_warm_up()
        self._await(position)
        self._publish_at_once(self.load.timed)
        began_s = time.monotonic()
        self._await(position)
        return self.load.timed / (time.monotonic() - began_s)

    def _timed_batches(self, checkpoint: BatchCheckpoint, pid: int, share: float = 1) -> tuple[float, dict[str, float]]:
        """Events a second of a query of Spark's, and the processor time of its process and the broker's."""
        timed = round(self.load.timed * share)
        self._publish_warm_up(share)
        self._await(lambda: _position(checkpoint))
        warm = checkpoint.last_committed_batch() or 0
        self._publish_at_once(timed)
        before = processor_time([pid, self.broker.pid])
        self._await(lambda: _position(checkpoint))
        spent = spent_since(before, [pid, self.broker.pid])
        began_s = Path(str(checkpoint.path), "offsets", str(warm + 1)).stat().st_mtime
        ended_s = Path(str(checkpoint.path), "commits", str(checkpoint.last_committed_batch())).stat().st_mtime
        return timed / (ended_s - began_s), spent

    def _await(self, position: Callable[[], dict[int, int]]) -> None:
        """Returns once all events are processed. The mark of a transaction may stand behind the last one."""
        deadline_s = time.monotonic() + _PATIENCE_S
        ends = Topics(self.broker.kafka).end([EVENTS]).offsets[EVENTS]
        while True:
            reached = position()
            if all(reached.get(number, -1) >= end - 1 for number, end in ends.items() if end):
                return
            if time.monotonic() > deadline_s:
                msg = f"{self.app} came to {reached} of {ends} in {_PATIENCE_S} s: see its log in {self.folder}"
                raise TimeoutError(msg)
            time.sleep(_LOOK_EVERY_S)

    def _await_members(self, group: str, count: int) -> None:
        """Quix Streams waits for ever for a table that it has read before its partitions moved to another member."""
        admin, deadline_s = self.broker.admin(), time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            described = admin.describe_consumer_groups([group])[group].result(30)
            if described.state is ConsumerGroupState.STABLE and len(described.members) == count:
                return
            time.sleep(_LOOK_EVERY_S)
        msg = f"group {group} does not get {count} members"
        raise TimeoutError(msg)

    def _environment(self, run_dir: Path) -> dict[str, str]:
        settings = {**SETTINGS, "run_dir": str(run_dir), "kafka_bootstrap": self.broker.bootstrap, "generation": "1"}
        return {f"STOREKEEPER_{key.upper()}": value for key, value in settings.items()}

    def _next(self, side: str) -> Path:
        """A new folder, and topics without anything in them but the names."""
        self._runs += 1
        known = self.broker.admin().list_topics(timeout=30).topics
        for topic in known:
            if not topic.startswith("__"):
                self.broker.delete_topic(topic)
        for topic in (EVENTS, NAMES, JOINED, "ks-joined", "quix-joined", TOTALS):
            self.broker.create_topic(topic, PARTITIONS)
        for app in ("bench_app", "bench_windows", "bench_join"):
            self.broker.create_topic(f"{app}-dlq", PARTITIONS)
        for store in ("bench_app-totals", "bench_windows-hours", "bench_join-names"):
            self.broker.create_topic(f"{store}-changelog", PARTITIONS, {"cleanup.policy": "compact"})
        folder = self.folder / f"{side}-{self._runs}"
        folder.mkdir()
        return folder

    def _publish_warm_up(self, share: float = 1) -> None:
        producer = fast_producer(self.broker.bootstrap)
        if self.app == "join":
            keys = range(self.load.keys)
            publish(producer, NAMES, ((b"key-%d" % key, b'{"Name":"name %d"}' % key, 0) for key in keys))
        publish(producer, EVENTS, self.load.events(0, round(self.load.warm_up * share)))

    def _publish_at_once(self, count: int) -> None:
        more: dict[str, str | int] = {"transactional.id": f"fill-{self._runs}", "transaction.timeout.ms": 600_000}
        producer = fast_producer(self.broker.bootstrap, **more)
        producer.init_transactions(30)
        producer.begin_transaction()
        publish(producer, EVENTS, self.load.events(self.load.warm_up, self.load.warm_up + count))
        producer.commit_transaction(120)


@contextmanager
def running(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its log in `folder`. It gets TERM at the end, and two minutes."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})  # noqa: TID251
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def _position(checkpoint: BatchCheckpoint) -> dict[int, int]:
    return dict(checkpoint.committed_position().offsets.get(EVENTS, {}))


def resident_mb(pid: int) -> float:
    """The resident memory of all Python workers below a process."""
    used = 0
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # it may have ended
            used += child.memory_full_info().uss if "pyspark.worker" in child.cmdline() else 0
    return used / 1024**2


def fast_producer(bootstrap: str, **more: str | int) -> Producer:
    """A producer for millions of small events."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 512 * 1024,
            "queue.buffering.max.messages": 500_000,
            **more,
        }
    )


def publish(producer: Producer, topic: str, records: Iterator[tuple[bytes, bytes, int]]) -> None:
    """Publishes records, each a key, a value and a timestamp, and waits until the broker has them."""
    for key, value, timestamp_ms in records:
        while True:
            try:
                producer.produce(topic, value, key, timestamp=timestamp_ms)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    producer.flush()


def run(name: str, app: str, title: str) -> None:
    """Runs one benchmark and writes its results.

    Args:
        name: of the results.
        app: `totals`, `windows` or `join`.
        title: what is measured.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_500_000)
    parser.add_argument("--keys", type=int, action="append", help="by default 50,000; of `app` 5 million, too")
    # The compilers of the JVMs are busy until about then.
    parser.add_argument("--warm-up", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("ours", *PEERS), action="append")
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.events, arguments.warm_up, arguments.runs, arguments.keys = 20_000, 2_000, 1, [1000]
    measures: list[Measure] = []
    spent: dict[str, float] = {}
    for keys in arguments.keys or ([50_000, 5_000_000] if app == "totals" else [50_000]):
        load = Load(keys, arguments.warm_up, arguments.events)
        peers = [peer for peer in PEERS if app == "totals" or peer != "plain_spark"]
        rates, bench = _rates(app, load, arguments.runs, arguments.only or ["ours", *peers])
        if arguments.only:
            print(*profile(bench.spent, load.timed).items(), sep="\n")
        if len(rates) <= len(peers):
            continue
        measures += [
            Measure(f"{title}, {keys:,} keys", "events/s", rates["ours"], rates[peer], PEERS[peer]) for peer in peers
        ]
        measures.append(
            Measure(f"{title}, {keys:,} keys: memory of all workers", "MiB", bench.resident_mb, higher_is_better=False)
        )
        spent = spent or profile(bench.spent, load.timed)
    if measures and not arguments.smoke:
        sizes = {name: getattr(arguments, name) for name in ("events", "warm_up")}
        print(write_results(name, measures, {**sizes, "partitions": PARTITIONS, **SETTINGS}, spent))


def _rates(app: str, load: Load, runs: int, sides: list[str]) -> tuple[dict[str, list[float]], Bench]:
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{app}-"))
    broker = start_broker(folder / "broker", BROKER_OPTIONS)
    try:
        bench = Bench(broker, folder, app, load)
        print(f"{app}, {load.keys:,} keys", flush=True)
        rates = run_rounds({side: getattr(bench, side) for side in sides}, runs, "events/s")
    finally:
        broker.stop()
    shutil.rmtree(folder)
    return rates, bench
