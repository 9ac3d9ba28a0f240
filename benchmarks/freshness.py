"""How fresh the answers of a query node are, and what else must be quick: `make bench-freshness`.

5,000 invoices a second go through app `pos` to two query nodes. Some invoices are of customers of their own: from the
moment such a one is handed to the producer, a node is asked again and again until it knows the customer.
Then: how long a poison record takes to its dead-letter topic, what an idle app costs, and how long an app that was
killed takes until it goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
import orjson
import psutil
from confluent_kafka import Consumer, Producer

from benchmarks.invoices import InvoiceRecord, invoice_records
from benchmarks.pos import BROKER_OPTIONS
from benchmarks.results import Measure, write_results
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker, start_broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes
from storekeeper.engine.runtime.heartbeat import AppState

PARTITIONS = 4
APP = "pos"
CHANGELOG = "pos-rewards-changelog"
TOPICS = ("pos", "shipment", "hadoop-sink", "loyalty", "pos-dlq")
SETTINGS = {"trigger_interval_ms": "200"}
PROBES_PER_SECOND = 20
_ASK_EVERY_S = 0.02
_STEP_S = 0.02
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Invoices a second, how long they are sent for, how long before it counts, and how long idle apps are watched."""

    rate: int
    seconds: float
    warm_up_s: float
    idle_s: float
    poison: int
    restarts: bool = True


FULL = Sizes(rate=5000, seconds=40.0, warm_up_s=60.0, idle_s=20.0, poison=5)
SMOKE = Sizes(rate=200, seconds=3.0, warm_up_s=2.0, idle_s=2.0, poison=1)


@dataclass(slots=True)
class Probe:
    """An invoice of a customer of its own. Times are epoch seconds; None while it isn't there yet."""

    card: str
    sent_s: float
    seen_s: float | None = None


@dataclass(slots=True)
class Load:
    """Invoices at a steady rate, with probes among them."""

    producer: Producer
    records: Sequence[InvoiceRecord]
    rate: int
    probes: list[Probe] = field(default_factory=list)
    sent: int = 0

    def run(self, seconds: float, *, probing: bool) -> None:
        """Sends for so long. What could not be sent in time is sent as soon as it can be."""
        begun, first = time.monotonic(), self.sent
        source = itertools.islice(itertools.cycle(self.records), self.sent % len(self.records), None)
        next_probe = 0.0
        while (passed := time.monotonic() - begun) < seconds:
            for record in itertools.islice(source, max(0, first + int(passed * self.rate) - self.sent)):
                self.producer.produce("pos", record.value, record.key)
                self.sent += 1
            if probing and passed >= next_probe:
                next_probe += 1 / PROBES_PER_SECOND
                self._probe()
            self.producer.poll(0)
            time.sleep(_STEP_S / 4)
        self.producer.flush()

    def _probe(self) -> None:
        card = f"9{len(self.probes):09}"
        invoice = orjson.loads(self.records[0].value)
        invoice |= {"CustomerType": "PRIME", "CustomerCardNo": card, "InvoiceNumber": f"9{len(self.probes):07}"}
        key = f"STR{len(self.probes) % 500 + 1:04}"
        value = orjson.dumps(invoice | {"StoreID": key})
        self.producer.produce("pos", value, key.encode())
        self.probes.append(Probe(card, time.time()))


class Observer(threading.Thread):
    """Asks a node for the customers of all probes that it doesn't know yet, all the time."""

    def __init__(self, address: str, probes: list[Probe]) -> None:
        super().__init__(name="observer")
        self._address = address
        self._probes = probes
        self._first = 0
        self.done = threading.Event()

    def run(self) -> None:
        """Asks until `done` is set."""
        with httpx2.Client(timeout=10.0, trust_env=False) as http:
            while not self.done.is_set():
                began = time.monotonic()
                pending = [probe for probe in self._probes[self._first :] if probe.seen_s is None]
                if pending:
                    self._ask(http, pending[:900])
                self.done.wait(max(0.0, began + _ASK_EVERY_S - time.monotonic()))

    def _ask(self, http: httpx2.Client, pending: list[Probe]) -> None:
        answer = http.post(f"{self._address}/state/keyvalues/rewards", json={"keys": [p.card for p in pending]})
        answer.raise_for_status()
        now_s = time.time()
        for probe, row in zip(pending, answer.json()["rows"], strict=True):
            if row["value"] is not None:
                probe.seen_s = now_s
        while self._first < len(self._probes) and self._probes[self._first].seen_s is not None:
            self._first += 1


@contextmanager
def observed(address: str, probes: list[Probe]) -> Iterator[None]:
    """Watches the probes, and at the end waits until all have been seen."""
    observer = Observer(address, probes)
    observer.start()
    try:
        yield
        deadline = time.monotonic() + _PATIENCE_S
        while observer.is_alive() and any(probe.seen_s is None for probe in probes) and time.monotonic() < deadline:
            time.sleep(_STEP_S)
    finally:
        observer.done.set()
        observer.join()


def poison_latency_s(broker: Broker, producer: Producer, count: int) -> list[float]:
    """From handing a poison record to the producer until a committed dead letter can be read, one after the other."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "freshness-poison",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.subscribe(["pos-dlq"])
    taken = []
    try:
        consumer.poll(5.0)  # joins the group
        for number in range(count):
            began = time.monotonic()
            producer.produce("pos", b"no invoice", f"STR{number:04}".encode())
            producer.flush()
            while consumer.poll(0.05) is None:
                if time.monotonic() - began > _PATIENCE_S:
                    raise TimeoutError("a poison record never became a dead letter")
            taken.append(time.monotonic() - began)
    finally:
        consumer.close()
    return taken


def idle_share(process: AppProcess, seconds: float) -> float:
    """The share of a core that an app takes, its JVM and workers included."""
    before = _cpu_s(process)
    time.sleep(seconds)
    return (_cpu_s(process) - before) / seconds


def _cpu_s(process: AppProcess) -> float:
    parent = psutil.Process(process.process.pid)
    return sum(sum(one.cpu_times()[:2]) for one in (parent, *parent.children(recursive=True)))


@dataclass(slots=True)
class Bench:
    """Everything that runs."""

    broker: Broker
    apps: AppProcesses
    nodes: list[NodeProcess]
    running: AppProcess | None = None

    def start(self) -> None:
        """Starts apps and nodes, and waits until they work."""
        for node in self.nodes:
            node.start()
        self.running = self.apps.start(APP)
        self.running.await_beat(lambda beat: beat.state is AppState.RUNNING and beat.caught_up, "runs")
        for node in self.nodes:
            node.wait_ready()

    def restart_s(self, producer: Producer, record: InvoiceRecord) -> float:
        """Kills the app and its JVM, starts it, and waits until it has committed a batch that came meanwhile."""
        assert self.running is not None
        self.running.kill_jvm()
        self.running.process.kill()
        self.running.await_exit()
        producer.produce("pos", record.value, record.key)
        producer.flush()
        began = time.monotonic()
        self.running = self.apps.start(APP)
        self.running.await_beat(lambda beat: beat.caught_up and beat.input_rows_total > 0, "goes on")
        return time.monotonic() - began

    def stop(self) -> None:
        """Ends everything."""
        self.apps.stop()
        for node in self.nodes:
            node.close()
        self.broker.stop()


@dataclass(slots=True)
class Found:
    """What was measured, in seconds unless said otherwise."""

    probes: list[Probe]
    reached_rate: float
    poison: list[float]
    idle: list[float]
    restart: list[float]

    @property
    def fresh(self) -> list[float]:
        """From produce to visible."""
        return [probe.seen_s - probe.sent_s for probe in self.probes if probe.seen_s is not None]

    @property
    def lost(self) -> int:
        """Probes that never became visible."""
        return sum(probe.seen_s is None for probe in self.probes)


def say(step: str) -> None:
    """Tells how far it is."""
    print(f"{time.strftime('%X')} {step}", file=sys.stderr, flush=True)


def measure(bench: Bench, sizes: Sizes) -> Found:
    """Runs everything once."""
    records = list(invoice_records(min(50_000, int(sizes.rate * sizes.seconds)), 20_000))
    producer = Producer({"bootstrap.servers": bench.broker.bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    load = Load(producer, records, sizes.rate)
    load.run(sizes.warm_up_s, probing=False)
    say("warmed up")
    before, began = load.sent, time.monotonic()
    with observed(bench.nodes[0].address, load.probes):
        load.run(sizes.seconds, probing=True)
        rate = (load.sent - before) / (time.monotonic() - began)
    say("load sent and seen")
    poison = poison_latency_s(bench.broker, producer, sizes.poison)
    say("poison seen")
    idle = [idle_share(bench.running, sizes.idle_s)] if sizes.idle_s and bench.running else []
    say("idle watched")
    restart = [bench.restart_s(producer, next(r for r in records if r.prime))] if sizes.restarts else []
    return Found(load.probes, rate, poison, idle, restart)


def measures_of(found: Found) -> list[Measure]:
    """The figures of a run."""

    def lower(name: str, unit: str, figures: Sequence[float]) -> Measure:
        return Measure(name, unit, figures, higher_is_better=False)

    def at(figures: Sequence[float], quantile: int) -> float:
        return statistics.quantiles(figures, n=100, method="inclusive")[quantile - 1]

    return [
        *(lower(f"produce to visible, p{q}", "s", [at(found.fresh, q)]) for q in (50, 95, 99)),
        *([lower("poison record to dead letter, each", "s", found.poison)] if found.poison else []),
        *(lower(f"idle {APP}", "% of a core", [100 * share]) for share in found.idle),
        *(lower(f"restart of {APP} after kill -9", "s", [taken]) for taken in found.restart),
        Measure("invoices a second that were sent", "invoices/s", [found.reached_rate]),
    ]


def started(folder: Path, settings: dict[str, str]) -> Bench:
    """A broker with its topics, apps and nodes; nothing but the broker runs."""
    broker = start_broker(folder / "broker", BROKER_OPTIONS)
    for topic in TOPICS:
        broker.create_topic(topic, PARTITIONS)
    broker.create_topic(CHANGELOG, PARTITIONS, COMPACTED)
    apps = AppProcesses(folder / "run", broker.bootstrap, settings)
    return Bench(broker, apps, make_nodes(broker, folder / "nodes", f"rewards={CHANGELOG}"))


def main() -> None:
    """Runs the benchmark and writes its results; fails if an invoice never became visible."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the apps")
    parser.add_argument("--seconds", type=float, help="how long the load lasts")
    parser.add_argument("--load-only", action="store_true", help="leave out poison, idling and restarts; no results")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else FULL
    if arguments.load_only:
        sizes = Sizes(sizes.rate, sizes.seconds, sizes.warm_up_s, idle_s=0, poison=0, restarts=False)
    if arguments.seconds:
        sizes = replace(sizes, seconds=arguments.seconds)
    settings = SETTINGS | dict(pair.split("=", 1) for pair in arguments.set)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # and so stops what it had started
    folder = Path(tempfile.mkdtemp(prefix="bench-freshness-"))
    bench = started(folder, settings)
    try:
        bench.start()
        found = measure(bench, sizes)
    finally:
        bench.stop()
        if arguments.keep:
            print(folder)
        else:
            shutil.rmtree(folder)
    measures = measures_of(found)
    for one in measures:
        print(json.dumps(one.as_dict()["measure"]), [round(figure, 3) for figure in one.ours], one.unit)
    if not (arguments.smoke or arguments.set or arguments.load_only):
        print(
            write_results(
                "freshness",
                measures,
                {"rate": sizes.rate, "warm_up_s": sizes.warm_up_s, "seconds": sizes.seconds, **settings},
            )
        )
    if found.lost:
        sys.exit(f"{found.lost} of {len(found.probes)} customers never became visible")


if __name__ == "__main__":
    main()
