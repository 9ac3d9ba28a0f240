"""Lives and deaths: the apps side by side, each killed over and over, while invoices keep coming."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker
from harness.crashes import careless_oracle
from harness.crashes.careless import TOPIC as ORDERS
from harness.crashes.careless_oracle import CarelessOracle
from harness.crashes.feed import Feed
from harness.crashes.harm import Harm, Stores
from harness.crashes.living import Living, Outcome
from harness.crashes.oracle import BY_HAND, Difference, PosOracle, dead_letters
from harness.crashes.points import POINTS, Point, Victim, lives
from harness.crashes.stores import local_stores, query_node, snapshot
from harness.node_process import NodeProcess, make_nodes
from harness.poison import kind_of
from harness.topics import Record, end_offsets, read_topic

SOURCES = {"pos": "pos", "hadoop_export": "hadoop-sink", "careless": ORDERS}
TOPICS = ("shipment", "loyalty", "hadoop-sink", "pos-dlq", "hadoop_export-dlq", *careless_oracle.TOPICS[1:])
OF_ANY_TIME = ("pos", ORDERS)
"""Topics that take poison whose time is far ahead."""
CHANGELOG = "pos-rewards-changelog"
CHANGELOGS = (CHANGELOG, *careless_oracle.CHANGELOGS.values(), *careless_oracle.CHANGELOGS_OF_WINDOWS)
SETTINGS = {
    "max_offsets_per_trigger": "200",
    "trigger_interval_ms": "50",
    "max_dead_letter_share": "1",  # poison is put in on purpose
    "own_apps": "harness.crashes.careless:CARELESS",
}
CONSTANTS: dict[str, object] = {
    "storekeeper.engine.runtime.session:ARROW_BATCH_ROWS": 10,  # a task writes after each of these
    "storekeeper.samples.hadoop_export.app:TRIGGER_INTERVAL_MS": 200,
}
PATIENCE_S = 1800.0
"""A machine may do other things beside a campaign."""
_SHARES = {"pos": 3, "hadoop_export": 1, "careless": 2}
"""Most kills are of the apps with state."""
_STORES = {"pos": "pos-purchases.repartition", "hadoop_export": "none", "careless": "careless-shop.repartition"}
"""The folder of the local stores that are harmed."""
_LARGE_BATCHES = {"max_offsets_per_trigger": "50000"}
_FINAL_INVOICES = 400
_WHOLE = 15
"""An app that is to be killed so often goes on until it has met every point."""


@dataclass(slots=True)
class Campaign:
    """A number of kills, spread over the apps: `run` them, `settle`, and look at the `differences`.

    Attributes:
        apps: starts them.
        broker: their broker, which is killed too.
        count: how many kills are to meet somebody.
        seed: of everything random.
    """

    apps: AppProcesses
    broker: Broker
    count: int
    seed: int
    feed: Feed = field(init=False)
    livings: dict[str, Living] = field(init=False)
    _node: NodeProcess = field(init=False)

    def __post_init__(self) -> None:
        lock = threading.Lock()
        self.feed = Feed(self.broker.bootstrap, self.seed)
        (self._node,) = make_nodes(self.broker, self.apps.run_dir / "node", f"rewards={CHANGELOG}", names="a")
        self.livings = {app: Living(app, self.apps, self.broker, lock, self._stores(app)) for app in SOURCES}

    @property
    def hits(self) -> list[Outcome]:
        """The kills that met somebody."""
        return [outcome for living in self.livings.values() for outcome in living.hits]

    @property
    def hits_at(self) -> Counter[tuple[str, Point]]:
        """How many kills met somebody, by app and point."""
        return Counter((outcome.app, outcome.kill.point) for outcome in self.hits)

    @property
    def complaints(self) -> list[str]:
        """What must not happen, and did."""
        return [complaint for living in self.livings.values() for complaint in living.complaints]

    @property
    def records(self) -> Counter[str]:
        """How many records of each kind the feed has published: good ones, and each kind of poison."""
        sales = Counter(kind_of(*sale) or "good invoices" for sale in self.feed.published)
        orders = CarelessOracle([Record(0, 0, *order, {}) for order in self.feed.ordered])
        return sales + Counter({f"orders, {kind or 'good'}": count for kind, count in orders.kinds.items()})

    @property
    def never_hit(self) -> list[str]:
        """The points, victims and harms that never came to be."""
        met, victims = self.hits_at, {outcome.kill.victim for outcome in self.hits}
        harms = {harm for living in self.livings.values() for harm in living.harms}
        return [
            *(f"{app}: {point}" for app, points in POINTS.items() for point in points if not met[app, point]),
            *(victim for victim in Victim if victim not in victims),
            *(harm for harm in Harm if harm not in harms),
        ]

    def run(self) -> None:
        """Makes the topics and kills until it is enough, while the feed goes on and a node follows."""
        for topic in TOPICS:
            self.broker.create_topic(topic)
        for topic in OF_ANY_TIME:
            self.broker.create_topic(topic, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        for topic in CHANGELOGS:
            self.broker.create_topic(topic, config={"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
        self._node.start()
        self.feed.start()
        threads = [threading.Thread(target=self._run_app, args=(app,), name=app) for app in SOURCES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.feed.finish()

    def settle(self) -> None:
        """Starts all apps once more, in one driver, lets them finish everything, and stops them."""
        first, *_ = SOURCES
        # Small batches were for the kills: there are many of them to be met.
        shared = self.apps.start_module(first, "storekeeper.cli.entry", "run", *SOURCES, **_LARGE_BATCHES)
        running = {app: AppProcess(app, shared.process, shared.run_dir) for app in SOURCES}
        # What a dead attempt had committed is not applied again: with a further batch the local stores are whole.
        for more in (0, _FINAL_INVOICES):
            self.feed.add(more, last=more > 0)
            for app, source in SOURCES.items():
                running[app].await_caught_up(end_offsets(self.broker.bootstrap, source))
            running["careless"].await_caught_up(end_offsets(self.broker.bootstrap, careless_oracle.REPARTITION))
        assert shared.terminate() == 0, shared.log_tail()

    def differences(self) -> list[Difference]:
        """How each output differs from what follows from the input."""
        bootstrap = self.broker.bootstrap
        arrived, orders = read_topic(bootstrap, "pos"), read_topic(bootstrap, ORDERS)
        oracle = PosOracle(arrived, lambda key, value: kind_of(key, value) is not None)
        table = DeltaTable(str(self.apps.run_dir / "delta" / "hadoop_export_staged")).to_pyarrow_table().to_pylist()
        by_hand = {(r.partition, r.offset) for r in read_topic(bootstrap, "hadoop-sink") if r.key == BY_HAND}
        rewards = oracle.rewards()
        # The client put these records where their keys belong.
        partitions = {record.key or b"": record.partition for record in read_topic(bootstrap, "loyalty")}
        return [
            Difference.between("pos", self.feed.published, [(record.key, record.value) for record in arrived]),
            Difference.between("orders", self.feed.ordered, [(record.key, record.value) for record in orders]),
            *oracle.differences(lambda topic: read_topic(bootstrap, topic)),
            *CarelessOracle(orders).differences(lambda topic: read_topic(bootstrap, topic)),
            dead_letters("hadoop_export", by_hand, read_topic(bootstrap, "hadoop_export-dlq")),
            local_stores(self._store_folder("pos"), partitions, rewards),
            query_node(self._node, rewards),
            oracle.exported(table),
            snapshot(self.apps, rewards),
        ]

    def close(self) -> None:
        """Ends the node and what is left of the apps."""
        self._node.close()
        self.apps.stop()

    def _run_app(self, app: str) -> None:
        living = self.livings[app]
        wanted = -(-self.count * _SHARES[app] // sum(_SHARES.values()))
        for number, life in enumerate(lives(app, self.seed)):
            is_whole = wanted < _WHOLE or all(self.hits_at[app, point] for point in POINTS[app])
            if number > 2 * wanted or (is_whole and len(living.hits) >= wanted):
                return
            try:
                living.live(number, life)
            except Exception as error:  # whatever it is, the other apps' lives go on
                living.complaints.append(f"{app}, {life}: {type(error).__name__}: {error}")
                return

    def _stores(self, app: str) -> Stores:
        copies = self.apps.run_dir / "copies" / app
        return Stores(self._store_folder(app), copies, random.Random(self.seed))

    def _store_folder(self, app: str) -> Path:
        return self.apps.run_dir / "tasks" / app / "gen-1" / _STORES[app]
