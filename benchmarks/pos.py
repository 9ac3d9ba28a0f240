"""The whole POS topology beside Kafka Streams: `make bench-pos`.

Both sides read the same topic of invoices and write shipments, masked line items, loyalty notifications and their
state's changelog, on the same broker. They take turns, also in who begins. The rate counts from the first read of the
invoices to the moment when the last output is visible, on processes that have warmed up on some invoices before: ours
from the plan of the first batch to its last commit, the peer from its first record consumed to its last.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.invoices import InvoiceRecord, invoice_records, publish
from benchmarks.processor_time import processor_time, profile, spent_since
from benchmarks.results import Measure, write_results
from benchmarks.rounds import run_rounds
from harness.broker import Broker, start_broker
from spark_apps.records.topics import POS
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.topics import Topics
from storekeeper.program import storekeeper_command

PEER_JARS = Path(__file__).parents[1] / ".jars" / "kafka-streams"
PARTITIONS = 4
GUARANTEE = "exactly_once_v2"
"""The peer's: ours has no other."""
APP = "pos"
CHANGELOG = "pos-rewards-changelog"
SINKS = ("shipment", "loyalty", "hadoop-sink", "ks-shipment", "ks-loyalty", "ks-hadoop-sink")
SETTINGS = {
    "trigger_interval_ms": "100",
    # A backlog in batches of seconds: the fewer they are, the less often each customer's total is written.
    "max_offsets_per_trigger": "300100",
    # A task for each partition: what waits for the broker leaves the cores to others.
    "spark_master": "local[4]",
}
BROKER_OPTIONS = ("-Xms1g", "-Xmx1g")
"""As in production: with all of the compiler, which the brokers of tests do without."""
_PATIENCE_S = 240


@dataclass(frozen=True, slots=True)
class Load:
    """Invoices to warm up with, and those that are timed."""

    warm_up: list[InvoiceRecord]
    timed: list[InvoiceRecord]

    @property
    def prime(self) -> int:
        """How many of all are of prime customers."""
        return sum(record.prime for record in self.warm_up + self.timed)


@dataclass(slots=True)
class Bench:
    """A broker, a folder, and the number of the next run's topics."""

    broker: Broker
    folder: Path
    load: Load
    settings: Mapping[str, str]
    spent: dict[str, float] = field(default_factory=dict)
    _runs: int = field(default=0)

    def ours(self) -> float:
        """Invoices a second of our app, which begins without any state."""
        pos, run_dir = POS, self.folder / f"ours-{self._runs}"
        self._runs += 1
        self.broker.create_topic(pos, PARTITIONS)
        self.broker.create_topic(CHANGELOG, PARTITIONS, {"cleanup.policy": "compact"})
        publish(producer_of(self.broker.bootstrap), pos, self.load.warm_up)
        chosen = {
            **self.settings,
            "run_dir": str(run_dir),
            "kafka_bootstrap": self.broker.bootstrap,
        }
        self.broker.create_topic(f"{pos}-dlq", PARTITIONS)
        with _app(chosen, run_dir) as process:
            checkpoint = BatchCheckpoint(run_dir / "checkpoints" / APP / "gen-1")
            self._await(checkpoint, pos)
            warm = checkpoint.last_committed_batch() or 0
            before = processor_time([process, self.broker.pid])
            self.publish_at_once(pos)
            self._await(checkpoint, pos)
            self.spent = spent_since(before, [process, self.broker.pid])
            began = Path(str(checkpoint.path), "offsets", str(warm + 1)).stat().st_mtime
            ended = Path(str(checkpoint.path), "commits", str(checkpoint.last_committed_batch())).stat().st_mtime
        # Without its checkpoint an app refuses to start beside the markers of another run.
        markers = [name for name in Topics(self.broker.kafka).names() if name.startswith(f"{APP}-gen-")]
        self._drop(pos, f"{pos}-dlq", CHANGELOG, *markers)
        return len(self.load.timed) / (ended - began)

    def peer(self) -> float:
        """Invoices a second of Kafka Streams."""
        pos = self.make_topic("pos")
        publish(producer_of(self.broker.bootstrap), pos, self.load.warm_up)
        self.publish_at_once(pos)
        records = len(self.load.warm_up) + len(self.load.timed)
        arguments = (str(records), str(self.load.prime), GUARANTEE, pos, str(len(self.load.warm_up)))
        state = self.folder / f"peer-{self._runs}"
        command = ["java", "-cp", f"{PEER_JARS}/*", "peer.Pos", self.broker.bootstrap, str(state), *arguments]
        output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PATIENCE_S).stdout
        report = json.loads(output.splitlines()[-1])
        self._drop(pos)
        return float(report["records"] / report["millis"] * 1000)

    def publish_at_once(self, pos: str) -> None:
        """Publishes the timed invoices in one transaction, so that readers find all of them there at once."""
        producer = producer_of(self.broker.bootstrap, {"transactional.id": pos, "transaction.timeout.ms": 300_000})
        producer.init_transactions(30)
        producer.begin_transaction()
        publish(producer, pos, self.load.timed)
        producer.commit_transaction(60)

    def _await(self, checkpoint: BatchCheckpoint, topic: str) -> None:
        """Returns once the app has committed all of its topic."""
        ends, deadline = Topics(self.broker.kafka), time.monotonic() + _PATIENCE_S
        while True:
            if time.monotonic() > deadline:
                msg = f"the app did not finish: see its log in {self.folder} (run with --keep)"
                raise TimeoutError(msg)
            time.sleep(0.5)
            # A busy broker will answer later.
            with suppress(BrokerUnavailableError):
                if checkpoint.committed_position().reaches(ends.end([topic])):
                    return

    def make_topic(self, name: str) -> str:
        """Makes a topic of a run; returns its name."""
        self._runs += 1
        topic = f"{name}-{self._runs:03}"
        self.broker.create_topic(topic, PARTITIONS)
        return topic

    def _drop(self, *topics: str) -> None:
        for topic in topics:
            self.broker.delete_topic(topic)


@contextmanager
def _app(settings: Mapping[str, str], run_dir: Path) -> Iterator[int]:
    """Our app, in a process of its own."""
    environment = [f"STOREKEEPER_{name.upper()}={value}" for name, value in settings.items()]
    run_dir.mkdir(parents=True)
    with (run_dir / "app.log").open("wb") as log:
        command = ["env", *environment, *storekeeper_command("run", APP)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def producer_of(bootstrap: str, more: Mapping[str, str | int] | None = None) -> Producer:
    """A client for many small records; `more` are further settings of its."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 512 * 1024,
            "queue.buffering.max.messages": 200_000,
            **(more or {}),
        }
    )


def arguments_of(description: str | None, *more: tuple[str, dict[str, Any]]) -> argparse.Namespace:
    """The arguments of a benchmark with invoices; `more` are options of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--invoices", type=int, default=1_500_000)
    parser.add_argument("--customers", type=int, default=100_000)
    parser.add_argument("--warm-up", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    for name, options in more:
        parser.add_argument(name, **options)
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.invoices, arguments.warm_up, arguments.runs = 20_000, 2_000, 1
    return arguments


@contextmanager
def open_bench(
    name: str, arguments: argparse.Namespace, sinks: Iterable[str], settings: Mapping[str, str]
) -> Iterator[Bench]:
    """A bench with its topics. Its broker has run our app once: it is compiled while it serves its first millions."""
    records = list(invoice_records(arguments.warm_up + arguments.invoices, arguments.customers))
    load = Load(records[: arguments.warm_up], records[arguments.warm_up :])
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    broker = start_broker(folder / "broker", BROKER_OPTIONS)
    try:
        for topic in sinks:
            broker.create_topic(topic, PARTITIONS)
        bench = Bench(broker, folder, load, settings)
        if not arguments.smoke:
            bench.ours()
        yield bench
    finally:
        broker.stop()
        if arguments.keep:
            print(folder)
        else:
            shutil.rmtree(folder)


def report(name: str, rates: Mapping[str, list[float]], peer: str, arguments: argparse.Namespace, bench: Bench) -> None:
    """Writes the results of a benchmark with invoices: the rates of `ours` and of the `peer`."""
    measures = [Measure("POS topology", "invoices/s", rates["ours"], rates["peer"], peer)]
    sizes = {size: getattr(arguments, size) for size in ("invoices", "customers", "warm_up")}
    settings = {**sizes, "partitions": PARTITIONS, **bench.settings}
    print(write_results(name, measures, settings, profile(bench.spent, arguments.invoices)))


def main() -> None:
    """Runs the benchmark and writes its results."""
    arguments = arguments_of(
        __doc__,
        ("--only", {"choices": ("ours", "peer")}),
        ("--set", {"action": "append", "default": [], "metavar": "NAME=VALUE", "help": "a setting of the app"}),
        ("--profile", {"action": "store_true", "help": "print the processor time of each kind of thread"}),
    )
    settings = SETTINGS | dict(pair.split("=", 1) for pair in arguments.set)
    with open_bench("pos", arguments, SINKS, settings) as bench:
        sides = {"peer": bench.peer, "ours": bench.ours}
        chosen = {side: sides[side] for side in sides if arguments.only in {None, side}}
        rates = run_rounds(chosen, arguments.runs, "invoices/s")
        if arguments.profile:
            print(*profile(bench.spent, arguments.invoices).items(), sep="\n")
    if not (arguments.only or arguments.smoke):
        report("pos", rates, "Kafka Streams 4.2, 2 threads", arguments, bench)


if __name__ == "__main__":
    main()
