"""Lives and deaths: the apps side by side, each killed over and over, while invoices keep coming."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from deltalake import DeltaTable

from harness import project
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker
from harness.crashes import careless_oracle, systems
from harness.crashes.careless import TOPIC as ORDERS
from harness.crashes.careless_oracle import CarelessOracle
from harness.crashes.feed import Feed
from harness.crashes.harm import Harm, Stores
from harness.crashes.inputs import LINE_ITEMS, POS, SYSTEMS, kind_of
from harness.crashes.living import Living, Outcome
from harness.crashes.oracle import Difference, PosOracle, bad, dead_letters
from harness.crashes.points import POINTS, PROCESSES, Point, Victim, coming_again, lives
from harness.crashes.stores import local_stores, query_node, snapshot
from harness.crashes.systems import SystemsOracle
from harness.node_process import NodeProcess, make_nodes
from harness.topics import Record, end_offsets, read_topic

SOURCES = {"pos": (POS,), "hadoop_export": (LINE_ITEMS,), "careless": (ORDERS,), **systems.SOURCES}
TOPICS = (
    *("shipment", "loyalty", "pos-dlq", "hadoop_export-dlq"),
    *(*careless_oracle.TOPICS[1:], *systems.DEAD_LETTERS),
)
OF_ANY_TIME = (POS, LINE_ITEMS, ORDERS, *SYSTEMS)
"""Topics that take poison whose time is far ahead."""
CHANGELOG = "pos-rewards-changelog"
CHANGELOGS = (
    *(CHANGELOG, *careless_oracle.CHANGELOGS.values(), *careless_oracle.CHANGELOGS_OF_WINDOWS),
    *systems.CHANGELOGS,
)
SETTINGS = {
    "max_offsets_per_trigger": "200",
    "trigger_interval_ms": "50",
    "max_dead_letter_share": "1",  # poison is put in on purpose
    "apps": f"{project.TILLS},harness.crashes.careless:CARELESS",
}
CONSTANTS: dict[str, object] = {
    "storekeeper.engine.runtime.session:ARROW_BATCH_ROWS": 10,  # so a JVM may die between two blocks of a task's rows
    "storekeeper.engine.table_sink.stream:TRIGGER_INTERVAL_MS": 200,
    "storekeeper.engine.driver.process:_PAUSE_S": 0.5,
    "storekeeper.engine.driver.process:_RETRIES": 6,  # an app that is out for good can't be killed
}
PATIENCE_S = 1800.0
"""A machine may do other things beside a campaign."""
_STORES = {
    "pos": "pos-purchases.repartition",
    "hadoop_export": "none",
    "careless": "careless-shop.repartition",
    "ticks": "ticks",
    "leaderboard": "game-results",
    "order_location": "order-events",
    "session_tracker": "user-events",
    "sales_windows": "sales_windows-sold-items.repartition",
}
"""The folder of the local stores that are harmed."""
_LARGE_BATCHES = {"max_offsets_per_trigger": "50000"}
_FINAL_STEPS = 20


@dataclass(slots=True)
class Campaign:
    """Kills of all processes at the same time: `run` them, `settle`, and look at the `differences`.

    Attributes:
        apps: starts them.
        broker: their broker, which is killed too.
        minutes: how long each process is killed over and over.
        seed: of everything random.
    """

    apps: AppProcesses
    broker: Broker
    minutes: float
    seed: int
    feed: Feed = field(init=False)
    livings: dict[str, Living] = field(init=False)
    _node: NodeProcess = field(init=False)

    def __post_init__(self) -> None:
        lock = threading.Lock()
        self.feed = Feed(self.broker.bootstrap, self.seed, self.minutes)
        (self._node,) = make_nodes(self.broker, self.apps.run_dir / "node", f"rewards={CHANGELOG}", names="a")
        self.livings = {
            process: Living(process, self.apps, self.broker, lock, {app: self._stores(app) for app in apps})
            for process, apps in PROCESSES.items()
        }

    @property
    def hits(self) -> list[Outcome]:
        """The kills that met somebody."""
        return [outcome for living in self.livings.values() for outcome in living.hits]

    @property
    def hits_at(self) -> Counter[tuple[str, Point]]:
        """How many kills met somebody, by app and point."""
        return Counter((outcome.kill.app or outcome.app, outcome.kill.point) for outcome in self.hits)

    @property
    def complaints(self) -> list[str]:
        """What must not happen, and did."""
        return [complaint for living in self.livings.values() for complaint in living.complaints]

    @property
    def records(self) -> Counter[str]:
        """How many records of each kind the feed has published: good ones, and each kind of poison."""
        published = {topic: records for topic, records in self.feed.published.items() if topic != ORDERS}
        kinds = Counter(
            f"{topic}, {kind_of(topic, *record) or 'good'}"
            for topic, records in published.items()
            for record in records
        )
        orders = CarelessOracle([Record(0, 0, *order, {}) for order in self.feed.published[ORDERS]])
        return kinds + Counter({f"orders, {kind or 'good'}": count for kind, count in orders.kinds.items()})

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
        """Makes the topics and kills for its time, while the feed goes on and a node follows."""
        for topic in TOPICS:
            self.broker.create_topic(topic)
        for topic in OF_ANY_TIME:
            self.broker.create_topic(topic, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        for topic in CHANGELOGS:
            self.broker.create_topic(topic, config={"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
        self._node.start()
        self.feed.start()
        threads = [threading.Thread(target=self._run_process, args=(process,)) for process in PROCESSES]
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
        running = {app: AppProcess(app, shared.process, shared.run_dir, shared.patience_s) for app in SOURCES}
        # What a dead attempt had committed is not applied again: with a further batch the local stores are whole.
        for more in (0, _FINAL_STEPS):
            self.feed.add(more, last=more > 0)
            for app, sources in SOURCES.items():
                for source in sources:
                    running[app].await_caught_up(end_offsets(self.broker.bootstrap, source))
            running["careless"].await_caught_up(end_offsets(self.broker.bootstrap, careless_oracle.REPARTITION))
        assert shared.terminate() == 0, shared.log_tail()

    def differences(self) -> list[Difference]:
        """How each output differs from what follows from the input."""
        read = cache(partial(read_topic, self.broker.bootstrap))
        oracle = PosOracle(read(POS), kind_of)
        table = DeltaTable(str(self.apps.run_dir / "delta" / "hadoop_export_staged")).to_pyarrow_table().to_pylist()
        rewards = oracle.rewards()
        # The client put these records where their keys belong.
        partitions = {record.key or b"": record.partition for record in read("loyalty")}
        arrived = {
            topic: [(r.key, r.value) for r in read(topic)] for topic in self.feed.published if topic != LINE_ITEMS
        }
        return [
            *(Difference.between(topic, self.feed.published[topic], found) for topic, found in arrived.items()),
            *oracle.differences(read),
            *CarelessOracle(read(ORDERS)).differences(read),
            *SystemsOracle(read, kind_of).differences(),
            dead_letters("hadoop_export", bad(kind_of, LINE_ITEMS, read(LINE_ITEMS)), read("hadoop_export-dlq")),
            local_stores(self._store_folder("pos"), partitions, rewards),
            query_node(self._node, rewards),
            oracle.exported(table),
            snapshot(self.apps, rewards),
        ]

    def close(self) -> None:
        """Ends the node and what is left of the apps."""
        self._node.close()
        self.apps.stop()

    def _run_process(self, process: str) -> None:
        living, until_s = self.livings[process], time.monotonic() + self.minutes * 60
        for number, life in enumerate(coming_again(lives(process, self.seed), living.missed)):
            if time.monotonic() > until_s:
                return
            try:
                living.live(number, life)
            except Exception as error:  # whatever it is, the other apps' lives go on
                living.complaints.append(f"{process}, {life}: {type(error).__name__}: {error}")
                return

    def _stores(self, app: str) -> Stores:
        copies = self.apps.run_dir / "copies" / app
        return Stores(self._store_folder(app), copies, random.Random(self.seed))

    def _store_folder(self, app: str) -> Path:
        return self.apps.run_dir / "tasks" / app / "gen-1" / _STORES[app]
