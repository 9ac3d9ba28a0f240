"""Rounds of kills: the apps side by side, each killed as soon as it runs, while invoices keep coming."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import islice

from deltalake import DeltaTable

from spark_apps.checkpoint import SparkCheckpoint
from tests.broker import Broker
from tests.faults.crashes.attempt import Attempt, Outcome, start
from tests.faults.crashes.feed import Feed
from tests.faults.crashes.oracle import BY_HAND, Difference, PosOracle, dead_letters
from tests.faults.crashes.points import rounds
from tests.faults.crashes.tables import snapshot
from tests.integration.app_process import AppProcess, AppProcesses
from tests.integration.sales import bad_sales
from tests.integration.topics import end_offsets, read_topic

SOURCES = {"pos": "pos", "hadoop_export": "hadoop-sink"}
TOPICS = ("shipment", "loyalty", *SOURCES.values(), "pos-dlq", "hadoop-sink-dlq")
CHANGELOG = "pos-rewards-changelog"
SETTINGS = {
    "max_offsets_per_trigger": "200",
    "trigger_interval_ms": "50",
    "export_interval_ms": "200",
    "max_dead_letter_share": "1",  # poison is put in on purpose
}
_LARGE_BATCHES = {"max_offsets_per_trigger": "20000"}
_UNASKED = (0, 78)
"""With these exit codes no app may end unasked: supervisor would not start it again."""


@dataclass(slots=True)
class Campaign:
    """A number of rounds, spread over the apps: `run` them, `settle`, and look at the `differences`."""

    apps: AppProcesses
    broker: Broker
    count: int
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _broker_lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Makes the topics and runs all rounds while the feed goes on."""
        for topic in TOPICS:
            self.broker.create_topic(topic)
        self.broker.create_topic(CHANGELOG, config={"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
        feed = Feed(self.broker.bootstrap, self.seed)
        feed.start()
        share, rest = divmod(self.count, len(SOURCES))
        threads = [
            threading.Thread(target=self._run_app, args=(app, share + (number < rest)), name=app)
            for number, app in enumerate(SOURCES)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        feed.finish()

    def settle(self) -> None:
        """Starts all apps once more, in one process, lets them finish everything, and stops them."""
        first, *_ = SOURCES
        # Small batches were for the kills: there are many of them to be met.
        together = self.apps.start_module(first, "spark_apps", "run-together", *SOURCES, **_LARGE_BATCHES)
        for app, source in SOURCES.items():
            member = AppProcess(app, together.process, together.run_dir)
            member.await_caught_up(end_offsets(self.broker.bootstrap, source))
        assert together.terminate() == 0, together.log_tail()

    def differences(self) -> list[Difference]:
        """How each output differs from what follows from the input."""
        bootstrap = self.broker.bootstrap
        poison = set(bad_sales(16))
        oracle = PosOracle(read_topic(bootstrap, "pos"), lambda key, value: (key, value) in poison)
        table = DeltaTable(str(self.apps.run_dir / "delta" / "hadoop_export_staged")).to_pyarrow_table().to_pylist()
        by_hand = {(r.partition, r.offset) for r in read_topic(bootstrap, "hadoop-sink") if r.key == BY_HAND}
        rewards = oracle.rewards()
        return [
            *oracle.differences(lambda topic: read_topic(bootstrap, topic)),
            dead_letters("hadoop-sink", by_hand, read_topic(bootstrap, "hadoop-sink-dlq")),
            oracle.exported(table),
            snapshot(self.apps, rewards),
        ]

    def _run_app(self, app: str, count: int) -> None:
        checkpoint = SparkCheckpoint(self.apps.run_dir / "checkpoints" / app / "gen-1")
        for round_ in islice(rounds(app, self.seed), count):
            try:
                attempt = Attempt(start(self.apps, app, round_), checkpoint)
                outcome = attempt.live(round_, self.broker, self._broker_lock)
            except Exception as error:  # whatever it is, the other apps' rounds go on
                self.complaints.append(f"{app}, {round_}: {type(error).__name__}: {error}")
                return
            self.outcomes.append(outcome)
            if outcome.exit_code in _UNASKED:
                self.complaints.append(f"{app}, {round_}: it ended with {outcome.exit_code}")
