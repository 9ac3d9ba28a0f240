"""How an app grows with its partitions and sub-topologies: `python -m benchmarks.growth`; with its keys: `growth_keys`.

For each shape the app starts on a topic with one event of each key; that fills its stores. Then the timed events
become visible at once. The app is stopped and started on a few more events: with its local stores, without them, when
it restores from its changelogs, and without them after a snapshot, when it restores from its tables if that pays.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.results import Measure, write_results
from benchmarks.stream_apps import EVENTS
from benchmarks.streams import BROKER_OPTIONS, SETTINGS, fast_producer, publish, resident_mb, running
from harness.broker import Broker, start_broker
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.topics import Topics
from storekeeper.program import storekeeper_command

_FEW = 2_000
_PATIENCE_S = 1500
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of an app: its keys, the partitions of each of its topics, and its sub-topologies with a store each."""

    keys: int
    partitions: int
    sub_topologies: int

    def __str__(self) -> str:
        parts = "1 sub-topology" if self.sub_topologies == 1 else f"{self.sub_topologies} sub-topologies"
        return f"{self.keys / 1e6:g} million keys, {self.partitions} partitions, {parts}"


FIRST = Shape(1_000_000, 4, 1)
"""What others differ from in one size."""
_SHAPES = (
    FIRST,
    *(replace(FIRST, sub_topologies=number) for number in (2, 4, 8)),
    *(replace(FIRST, partitions=number) for number in (32, 200)),
)


@dataclass(slots=True)
class Growth:
    """An app of one shape on a broker.

    Attributes:
        broker: where its topics are.
        run_dir: its folder.
        shape: its size.
        timed: how many events are timed.
    """

    broker: Broker
    run_dir: Path
    shape: Shape
    timed: int
    measures: dict[str, tuple[str, float]] = field(default_factory=dict)

    def measure(self) -> None:
        """Measures everything, in the order of the module's text."""
        self._create_topics()
        self._publish((key, key) for key in range(self.shape.keys))
        with self._app() as (pid, began_s):
            self._await(lambda: self._checkpoint.last_committed_batch() is not None)
            self.measures["start to the first batch"] = ("s", time.monotonic() - began_s)
            self._await(self._is_done)
            warm = self._checkpoint.last_committed_batch() or 0
            chance = random.Random(7)
            self._publish(((n, chance.randrange(self.shape.keys)) for n in range(self.timed)), at_once=True)
            self._await(self._is_done)
            self.measures["throughput"] = ("events/s", self.timed / self._took_s(warm))
            self.measures["memory of all workers"] = ("MiB", resident_mb(pid))
        self.measures["restart with local stores"] = ("s", self._restarted_s())
        shutil.rmtree(self.run_dir / "tasks")
        self.measures["restart without local stores"] = ("s", self._restarted_s())
        stores = [f"totals_{number}" for number in range(1, self.shape.sub_topologies + 1)]
        command = storekeeper_command("snapshot", "create", *stores)
        subprocess.run(command, check=True, env={**os.environ, **self._environment})  # noqa: TID251
        shutil.rmtree(self.run_dir / "tasks")
        self.measures["restart without local stores, with tables"] = ("s", self._restarted_s())

    def _restarted_s(self) -> float:
        self._publish((n, n * 31 % self.shape.keys) for n in range(_FEW))
        with self._app() as (_, began_s):
            self._await(self._is_done)
            return time.monotonic() - began_s

    @property
    def _checkpoint(self) -> BatchCheckpoint:
        return BatchCheckpoint(self.run_dir / "checkpoints" / self._name / "gen-1")

    @property
    def _name(self) -> str:
        return f"bench_growth_{self.shape.sub_topologies}"

    @contextmanager
    def _app(self) -> Iterator[tuple[int, float]]:
        """The running app: its process, and when it was started."""
        began_s = time.monotonic()
        with running(storekeeper_command("run", self._spec), self.run_dir, self._environment) as process:
            yield process.pid, began_s

    @property
    def _spec(self) -> str:
        return f"benchmarks.stream_apps:GROWTH_{self.shape.sub_topologies}"

    @property
    def _environment(self) -> dict[str, str]:
        own = {"apps": self._spec, "run_dir": str(self.run_dir), "kafka_bootstrap": self.broker.bootstrap}
        return {f"STOREKEEPER_{key.upper()}": value for key, value in {**SETTINGS, **own}.items()}

    def _took_s(self, warm: int) -> float:
        """From the plan of the batch behind `warm` to the end of the last one."""
        last = self._checkpoint.last_committed_batch()
        began_s = Path(str(self._checkpoint.path), "offsets", str(warm + 1)).stat().st_mtime
        return Path(str(self._checkpoint.path), "commits", str(last)).stat().st_mtime - began_s

    def _is_done(self) -> bool:
        reached = self._checkpoint.committed_position().offsets.get(EVENTS, {})
        ends = Topics(self.broker.kafka).end([EVENTS]).offsets[EVENTS]
        return all(reached.get(number, -1) >= end - 1 for number, end in ends.items() if end)

    def _await(self, is_there: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not is_there():
            if time.monotonic() > deadline_s:
                msg = f"{self.shape}: too slow, see the log in {self.run_dir}"
                raise TimeoutError(msg)
            time.sleep(_LOOK_EVERY_S)

    def _create_topics(self) -> None:
        for topic in self.broker.admin().list_topics(timeout=30).topics:
            if not topic.startswith("__"):
                self.broker.delete_topic(topic)
        self.broker.create_topic(EVENTS, self.shape.partitions)
        self.broker.create_topic(f"{self._name}-dlq", self.shape.partitions)
        for number in range(1, self.shape.sub_topologies + 1):
            changelog = f"{self._name}-totals_{number}-changelog"
            self.broker.create_topic(changelog, self.shape.partitions, {"cleanup.policy": "compact"})

    def _publish(self, events: Iterator[tuple[int, int]], *, at_once: bool = False) -> None:
        more: dict[str, str | int] = {"transactional.id": "fill", "transaction.timeout.ms": 600_000} if at_once else {}
        producer, now_ms = fast_producer(self.broker.bootstrap, **more), int(time.time() * 1000)
        if at_once:
            producer.init_transactions(30)
            producer.begin_transaction()
        publish(producer, EVENTS, ((b"key-%d" % key, b'{"Amount":%d}' % (n % 100), now_ms) for n, key in events))
        if at_once:
            producer.commit_transaction(120)


def measure_shapes(name: str, shapes: Sequence[Shape]) -> None:
    """Measures each shape, and writes the results of that name."""
    parser = argparse.ArgumentParser(description="How an app grows")
    parser.add_argument("--events", type=int, default=1_000_000, help="timed, for each shape")
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    events = 20_000 if arguments.smoke else arguments.events
    measures: list[Measure] = []
    folder = Path(tempfile.mkdtemp(prefix="bench-growth-"))
    broker = start_broker(folder / "broker", BROKER_OPTIONS)
    try:
        for number, shape in enumerate(shapes):
            smaller = replace(shape, keys=shape.keys // 1000) if arguments.smoke else shape
            growth = Growth(broker, folder / str(number), smaller, events)
            growth.measure()
            for what, (unit, figure) in growth.measures.items():
                print(f"{smaller}: {what}: {figure:,.1f} {unit}", flush=True)
                measures.append(Measure(f"{smaller}: {what}", unit, [figure], higher_is_better=what == "throughput"))
            shutil.rmtree(growth.run_dir)
            if not arguments.smoke:  # a run takes an hour: what is measured is kept
                print(write_results(name, measures, {"events": events, **SETTINGS}))
    finally:
        broker.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    measure_shapes("growth", _SHAPES)
