"""The stages of a batch take records in the order of the test driver. Spark and Kafka are played."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine import stages
from storekeeper.engine.origins import Origins
from storekeeper.engine.parcels import parcels_of, place_of, stage_of
from storekeeper.engine.runtime.sink_metrics import Written
from storekeeper.engine.task_run import Forwarded, TaskRun
from storekeeper.engine.work import BatchWork
from storekeeper.stores.suppliers import MemorySupplier
from storekeeper.topology import (
    ProcessorContext,
    Store,
    StoreKind,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    tumbling,
)
from storekeeper.topology.layout import Layout
from storekeeper.topology.record_order import with_upstream
from storekeeper.topology.records import Moved, Output, Record, RecordFields
from storekeeper.topology.task import Task

PARTITIONS = {"a": 3, "b": 2, "names": 2}
APP: Any = SimpleNamespace(writer=SimpleNamespace(kafka=None))
NOTHING = BatchWork(APP, 0, {}, 1, writes_outputs=True)
EVENTS = st.lists(
    st.tuples(st.sampled_from(sorted(PARTITIONS)), st.integers(0, 2), st.sampled_from("klm"), st.integers(0, 30)),
    max_size=30,
)
Event = tuple[str, int, str, int]
STAGE = 1
"""Behind the first shuffle."""


class Numbering:
    """Forwards each record with its number among those of its task."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context, self._seen = context, context.store("seen")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        number = (self._seen.get("all") or 0) + 1
        self._seen.put("all", number)
        self._context.forward(key, value * 1000 + number, timestamp_ms)


def described() -> Topology:
    """Records of two topics, behind a shuffle numbered, then joined with a third topic, then behind a topic counted."""
    streams = StreamsBuilder("app")
    streams.add_store(Store("seen", int, kind=StoreKind.KEY_VALUE))
    first = streams.stream("a", int).select_key(lambda key, value: f"{key}{value % 2}")
    second = streams.stream("b", int).select_key(lambda key, value: f"{key}{value % 2}")
    both = first.merge(second).repartition(named="both", partitions=2)
    numbered = both.process(Numbering, stores=["seen"], values=int)
    joined = numbered.left_join(streams.table("names", int), lambda value, name: value * 1000 + (name or 0), values=int)
    joined.to("joined")
    regions = joined.group_by(lambda _, value: str(value % 2))
    counts = regions.windowed_by(tumbling(timedelta(milliseconds=5))).count(store=Store("counts", int))
    counts.to_stream().map(lambda window, count: (f"{window.key}@{window.start_ms}", count), values=int).to("counted")
    return streams.build()


@dataclass
class Played:
    """The engine without Spark and Kafka: one instance of each task, in memory."""

    rng: random.Random
    layout: Layout = field(default_factory=lambda: Layout(described().plan(PARTITIONS)))
    logs: dict[tuple[str, int], list[Record]] = field(default_factory=dict)
    done: dict[tuple[str, int], int] = field(default_factory=dict)
    written: dict[str, list[Output]] = field(default_factory=dict)
    tasks: dict[tuple[int, int], Task] = field(default_factory=dict)
    place: int = 0
    work: BatchWork = NOTHING

    def append(self, topic: str, partition: int, output: Output) -> None:
        key, value, timestamp_ms, headers = output
        log = self.logs.setdefault((topic, partition), [])
        log.append(Record(topic, partition, len(log), timestamp_ms, key, value, list(headers) or ()))

    def run_task(self, _: object, __: Layout, sub: Any, partition: int, origins: Origins, *___: object) -> Any:
        def process(parts: Any) -> tuple[Written, Forwarded]:
            task = self.tasks.setdefault((sub.number, partition), Task(sub, partition, MemorySupplier()))
            for part in parts:
                task.process(part)
            outputs = task.end_batch().outputs
            task.apply()
            for topic in outputs.keys() & self.layout.topics_to_create.keys():
                moved = with_upstream(outputs[topic], partition, origins.of, self.layout.topology.repartition_topics)
                for output in moved:
                    self.append(topic, partition_for(output[0] or b"", self.layout.plan.partitions[topic]), output)
            for topic, found in outputs.items():
                self.written.setdefault(topic, []).extend(found)
            shuffled = {topic: outputs[topic] for topic in outputs.keys() & self.layout.shuffles.keys()}
            return Written(), TaskRun(self.work, self.layout, sub, partition, origins)._parcels_of(shuffled)

        return process

    def batch(self) -> bool:
        """Runs one batch; whether there were any records."""
        source: dict[str, dict[int, tuple[int, int]]] = {}
        for (topic, partition), records in self.logs.items():
            source.setdefault(topic, {})[partition] = self.done.get((topic, partition), 0), len(records)
        self.work = BatchWork(APP, 0, source, 1, writes_outputs=True)
        has_waited = self.done != (ends := {log: len(records) for log, records in self.logs.items()})
        self.done = ends
        numbers = list(range(len(self.work.first_tasks(self.layout))))
        self.rng.shuffle(numbers)
        parcels = [parcel for number in numbers for parcel in stages.run_sources([number], work=self.work)]
        for stage in range(1, self.layout.last_stage + 1):
            places, gathered = len(self.layout.tasks(stage)), list[bytes]()
            for place in range(places):
                own = [parcel for parcel in parcels if place_of(parcel) % places == place]
                self.rng.shuffle(own)
                self.place = place
                gathered += stages.run_gathered(own, work=self.work, stage=stage)
            parcels = gathered
        assert {stage_of(parcel) for parcel in parcels} <= {0}, "outcomes alone are left"
        return has_waited

    def read(self, _: object, topic: str, partition: int, start: int, end: int) -> Any:
        """In place of `SourceRecords`."""

        class Read(list[list[Record]]):
            rows = end - start

        read = Read()
        read.topic, read.partition = topic, partition  # type: ignore[attr-defined]
        records = self.logs[topic, partition][start:end]
        while records:
            size = self.rng.randint(1, 5)
            read.append(records[:size])
            records = records[size:]
        return read


def playing(patch: pytest.MonkeyPatch, seed: int) -> Played:
    """The stages on tasks in memory."""
    engine = Played(random.Random(seed))
    app = SimpleNamespace(layout=engine.layout, global_tables={})
    patch.setattr(stages, "_app", lambda _: app)
    patch.setattr(stages, "TaskRun", engine.run_task)
    patch.setattr(stages, "SourceRecords", engine.read)
    context = SimpleNamespace(partitionId=lambda: engine.place)
    patch.setattr(stages, "TaskContext", SimpleNamespace(get=lambda: context))
    return engine


def compared(engine: Played, batches: list[list[Event]]) -> None:
    """Runs batches of events on both, and compares what comes out of each partition."""
    driver = TopologyTestDriver(described(), PARTITIONS)
    for batch in batches:
        for number, (topic, place, key, time_ms) in enumerate(batch):
            partition = place % PARTITIONS[topic] if topic != "names" else partition_for(key.encode(), 2)
            driver.append(topic, key, number, time_ms, partition=partition)
            engine.append(topic, partition, (key.encode(), b"%d" % number, time_ms, ()))
        driver.run()
        while engine.batch():
            pass
    for topic in ("joined", "counted"):
        found = [
            ((key or b"").decode(), int(value or b""), time) for key, value, time, _ in engine.written.get(topic, [])
        ]
        expected = [tuple(record) for record in driver.read(topic)]
        assert {key: [row for row in found if row[0] == key] for key, *_ in found} == {
            key: [row for row in expected if row[0] == key] for key, *_ in expected
        }


@settings(max_examples=100)
@given(batches=st.lists(EVENTS, max_size=4), seed=st.integers(0, 1000))
def test_the_engine_takes_records_in_the_order_of_the_test_driver(batches: list[list[Event]], seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        compared(playing(patch, seed), batches)


@pytest.mark.long("test_stages.py with a hundred cases")
@settings(max_examples=3000)
@given(batches=st.lists(EVENTS, max_size=4), seed=st.integers(0, 1000))
def test_the_engine_takes_records_in_the_order_of_the_test_driver_in_thousands_of_cases(
    batches: list[list[Event]], seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        compared(playing(patch, seed), batches)


def gathered(monkeypatch: pytest.MonkeyPatch, parcels: Iterable[bytes]) -> list[RecordFields]:
    """The records that the first task behind the shuffle gets from parcels."""
    engine, found = playing(monkeypatch, 0), list[RecordFields]()

    def process(parts: Any) -> tuple[Written, Forwarded]:
        found.extend(record for part in parts for record in part)
        return Written(), {}

    monkeypatch.setattr(stages, "TaskRun", lambda *_: process)
    [(sub, _), *_] = engine.layout.tasks(STAGE)
    assert any(source.topic in engine.layout.shuffles for source in sub.sources)
    list(stages.run_gathered(parcels, work=NOTHING, stage=STAGE))
    return found


@pytest.mark.parametrize("timed", [False, True])
def test_tasks_with_timers_take_part_without_records(timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ran = playing(monkeypatch, 0), list[tuple[int, int]]()

    def run_task(_: object, __: Layout, sub: Any, partition: int, *___: object) -> Any:
        ran.append((sub.number, partition))
        return lambda _: (Written(), {})

    monkeypatch.setattr(stages, "TaskRun", run_task)
    layout, source = engine.layout, {"a": {0: (5, 5), 1: (7, 7)}, "names": {0: (1, 1)}}
    subs = layout.with_processors if timed else frozenset[int]()
    work = BatchWork(APP, 0, source, 1, writes_outputs=True, timed=subs)
    first = work.first_tasks(layout)
    list(stages.run_sources(range(len(first)), work=work))
    for engine.place in range(len(layout.tasks(STAGE))):
        list(stages.run_gathered([], work=work, stage=STAGE))
    [numbering] = [sub for sub in layout.running if "seen" in {spec.name for spec in sub.stores}]
    assert layout.with_processors == {numbering.number}
    assert ran == ([(numbering.number, partition) for partition in range(2)] if timed else [])


def parcels_to(stage: int, outputs: list[Moved], most_bytes: int) -> list[bytes]:
    """Parcels of records for the first task of a stage."""
    tasks: Any = np.zeros(len(outputs), np.int32)
    topic = "app-both-repartition"
    return list(parcels_of(stage, tasks, 1, topic, outputs, origins=range(len(outputs)), most_bytes=most_bytes))


def test_records_of_a_shuffle_come_in_bounded_parcels(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[Moved] = [(b"k", b"%03d" % number, number, (), "a", 0, number) for number in range(100)]
    parcels = parcels_to(STAGE, outputs, 100)
    assert len(parcels) == 4
    assert [record[2:4] for record in gathered(monkeypatch, parcels)] == [(number, number) for number in range(100)]


def test_one_large_record_is_a_parcel_of_its_own() -> None:
    outputs: list[Moved] = [(b"k", b"x" * size, 0, (), "a", 0, 0) for size in (1, 500, 1)]
    parcels = parcels_to(2, outputs, 100)
    assert [len(parcel) > 500 for parcel in parcels] == [False, True, False]


@pytest.mark.long("test_stages.py with small limits")
def test_a_task_takes_more_values_than_two_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    mib = 64
    [parcel] = parcels_to(STAGE, [(b"k", bytes(mib << 20), 0, (), "a", 0, 0)], 1)
    number = (2 << 30) // (mib << 20) + 2
    assert len(gathered(monkeypatch, (parcel for _ in range(number)))) == number
