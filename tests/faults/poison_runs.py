"""Runs of apps in one process, over good records and poison, cut into batches and crashed anyhow."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from demo.systems.events import system_records
from harness.crashes.careless import CARELESS
from harness.crashes.careless_oracle import CarelessOracle
from harness.crashes.oracle import Difference
from harness.crashes.orders import Orders
from harness.poison import Poison, poison_of
from harness.sales import good_sales
from harness.topics import Record
from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine.dead_letters import dead_letter
from storekeeper.testkit.plain_driver import PARTITIONS, partitions_of, topology_of
from storekeeper.topology import CrashStep, TopologyTestDriver

BYTES_AS_KEYS = "pos"
"""The app whose keys may be any bytes."""
WITH_TOTALS = ("loyalty",)
"""Topics whose values depend on the order in which partitions are read."""
ToTopic = tuple[str, Poison]


@dataclass(slots=True)
class PoisonRun:
    """One app, given records in batches of any size, with crashes now and then.

    Attributes:
        spec: the app.
        rng: decides on batches and crashes.
        crashes: whether there are any.
        sizes: how many records a batch has, at least and at most.
        arrived: the records, by topic.
    """

    spec: AppSpec
    rng: random.Random
    crashes: bool = True
    sizes: tuple[int, int] = (1, 80)
    arrived: dict[str, list[Record]] = field(default_factory=dict)
    driver: TopologyTestDriver = field(init=False)
    _ends: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        topology = topology_of(self.spec, AppSettings())
        self.driver = TopologyTestDriver(topology, partitions_of(topology), on_error=self.spec.on_error)

    def give(self, records: Iterable[ToTopic]) -> None:
        """Gives records in batches."""
        waiting = iter(records)
        while batch := list(islice(waiting, self.rng.randint(*self.sizes))):
            if self.crashes and self.rng.random() < 0.3:
                self.driver.crash_at(self.rng.choice([*CrashStep]), batches_before=self.rng.randrange(4))
            for topic, record in batch:
                self._append(topic, record)
            self.driver.run()

    def read(self, topic: str) -> list[Record]:
        """What a topic has: the records that were given, an output, a changelog, or the dead letters."""
        offsets = count()
        if topic in self.arrived:
            return self.arrived[topic]
        if topic == f"{self.spec.name}-dlq":
            made = (dead_letter(letter, app=self.spec.name) for letter in self.driver.dead_letters)
            return [Record(0, next(offsets), key, value, dict(headers)) for key, value, _, headers in made]
        for store in self.spec.stores:
            if store.changelog_topic == topic:
                logs = [(n, self.driver.changelog(store.name, n)) for n in range(PARTITIONS)]
                return [Record(n, next(offsets), key, value, {}) for n, log in logs for key, value in log]
        sinks = [sink for sub in topology_of(self.spec, AppSettings()).sub_topologies for sink in sub.sinks]
        (sink,) = [sink for sink in sinks if sink.topic == topic]
        keys, values = sink.key_serde.serialize, sink.value_serde.serialize
        return [Record(0, next(offsets), keys(r.key), values(r.value), {}) for r in self.driver.read(topic)]

    @property
    def letters(self) -> Counter[tuple[str, int, int]]:
        """The places of the dead letters."""
        places = (letter.record[:3] for letter in self.driver.dead_letters)
        return Counter((topic, partition, offset) for topic, partition, offset in places)

    @property
    def rows(self) -> dict[str, dict[bytes, bytes]]:
        """The newest rows of each store, by their bytes."""
        found: dict[str, dict[bytes, bytes]] = {}
        for sub in topology_of(self.spec, AppSettings()).sub_topologies:
            for spec in sub.stores:
                logs = [self.driver.changelog(spec.name, partition) for partition in range(PARTITIONS)]
                newest = {key: row for log in logs for key, row in log}
                found[spec.name] = {key: row for key, row in newest.items() if row is not None}
        return found

    @property
    def outputs(self) -> dict[str, Counter[str]]:
        """Everything in the output topics, in any order."""
        topology = topology_of(self.spec, AppSettings())
        topics = {sink.topic for sub in topology.sub_topologies for sink in sub.sinks} - topology.repartition_topics
        return {
            topic: Counter(repr(r.key if topic in WITH_TOTALS else r) for r in self.driver.read(topic))
            for topic in topics
        }

    def _append(self, topic: str, record: Poison) -> None:
        partition = partition_for(record.key or b"", PARTITIONS)
        place = topic, partition
        self.arrived.setdefault(topic, []).append(Record(partition, self._ends[place], record.key, record.value, {}))
        self._ends[place] += 1
        self.driver.append_bytes(topic, record.key, record.value, record.timestamp_ms, partition=partition)


def sources(app: str) -> list[str]:
    """The topics that an app reads."""
    return [*APPS[app].sources(AppSettings())]


def good_records(app: str) -> list[ToTopic]:
    """Records that an app can process."""
    topics = sources(app)
    if "pos" in topics:
        return [("pos", Poison(*record)) for record in good_sales(150, seed=4)]
    return [(record.topic, Poison(record.key, record.value)) for record in system_records() if record.topic in topics]


def bad_records(app: str) -> Iterator[ToTopic]:
    """Every kind of poison, in every topic of an app."""
    good = good_records(app)
    for topic in sources(app):
        key, value, _ = next(record for name, record in good if name == topic)
        assert key is not None
        assert value is not None
        kinds = poison_of(topic, key, value, text_keys=app != BYTES_AS_KEYS)
        yield from ((topic, poison) for poison in kinds.values())


def careless_run(
    seed: int, number: int, bad_share: float, *, step_ms: int = 3000, sizes: tuple[int, int] = (1, 80)
) -> tuple[CarelessOracle, list[Difference]]:
    """Runs the careless app over a number of orders; returns what differs.

    Args:
        seed: decides on the orders, batches and crashes.
        number: of orders.
        bad_share: the share of orders that are to fail.
        step_ms: the time between two orders.
        sizes: how many orders a batch has, at least and at most.
    """
    orders = Orders(seed, bad_share=bad_share, step_ms=step_ms, by_the_clock=False)
    run = PoisonRun(CARELESS, random.Random(seed), sizes=sizes)
    run.give(("orders", record) for record in orders.take(number))
    # By themselves: a record that is far ahead holds up those behind it in its batch.
    run.give(("orders", record) for record in orders.last())
    oracle = CarelessOracle(run.arrived["orders"])
    return oracle, [difference for difference in oracle.differences(run.read) if not difference.none]


def strewn(rng: random.Random, good: Sequence[ToTopic], bad: Sequence[ToTopic]) -> list[tuple[ToTopic, bool]]:
    """Good records in their order, with bad ones anywhere among them; and which they are."""
    found = [(record, True) for record in good]
    for record in bad:
        found.insert(rng.randint(0, len(found)), (record, False))
    return found
