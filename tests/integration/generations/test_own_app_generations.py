"""An app such as a user's own changes its state: real processes, a seed while it is idle, a hand-over under writes."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from harness.app_process import AppProcesses
from harness.broker import start_broker
from harness.node_process import NodeProcess, make_nodes, started
from harness.topics import end_offsets, read_topic, write_topic
from harness.waiting import eventually
from storekeeper.changelog.partitioner import partition_for
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.serdes.keys.windows import decode_window_row_key
from tests.integration.counted_app import (
    COUNTED,
    EVENTS,
    KEPT,
    NOTES,
    RESET,
    SUMS,
    TEN,
    TENS,
    by_first_letter,
    row,
    window,
    window_key,
    with_full,
)
from tests.integration.generations.generation_steps import GenerationSteps

pytestmark = [pytest.mark.broker, pytest.mark.spark]

APP = "tests.integration.counted_app:COUNTED"
MIGRATIONS = (
    "--migration",
    "tests.integration.counted_app:BY_LETTER",
    "--migration",
    "tests.integration.counted_app:WITH_FULL",
)
KEYS = [f"{letter}{number}".encode() for letter in "abcdef" for number in range(30)]


@dataclass
class Events:
    """Writes events, some at once or on and on in a thread."""

    bootstrap: str
    _rng: random.Random = field(default_factory=lambda: random.Random(11))
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def some(self, count: int) -> None:
        """So many, and all are there when it returns."""
        write_topic(self.bootstrap, EVENTS, [self._one() for _ in range(count)])

    def begin(self) -> None:
        """Goes on until `end`."""
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """No more of them."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})
        while not self._stop.wait(0.01):
            key, value = self._one()
            producer.produce(EVENTS, key=key, value=value)
            producer.poll(0)
        assert producer.flush(60) == 0

    def _one(self) -> tuple[bytes, bytes]:
        amount = RESET if self._rng.random() < 0.2 else self._rng.randint(1, 9)
        return self._rng.choice(KEYS), b"%d" % amount


@dataclass(frozen=True)
class Expected:
    """Rows of version 1 by store, and what was told of each key."""

    sums: dict[bytes, bytes]
    tens: dict[bytes, bytes]
    notes: dict[bytes, list[int]]

    @property
    def numbers(self) -> dict[bytes, bytes]:
        return {key: b"%d" % len(told) for key, told in self.notes.items()}

    @property
    def row_count(self) -> int:
        return len(self.sums) + len(self.tens) + len(self.numbers)


def windows(key: bytes, events: int) -> list[tuple[bytes, bytes]]:
    """The windows that are there after so many events of a key."""
    last = (events - 1) // TEN
    return [
        (window_key(key, number), window(key, min(TEN, events - number * TEN)))
        for number in range(max(0, last - KEPT + 1), last + 1)
    ]


@dataclass
class Place(GenerationSteps):
    """The app's processes, and what writes its events."""

    events: Events

    def expected(self) -> Expected:
        """What there must be, recomputed from all events."""
        sums: dict[bytes, int] = {}
        notes: dict[bytes, list[int]] = defaultdict(list)
        for event in read_topic(self.broker.bootstrap, EVENTS):
            assert event.key is not None
            assert event.value is not None
            amount = int(event.value)
            sums[event.key] = 0 if amount == RESET else sums.get(event.key, 0) + amount
            notes[event.key].append(len(notes[event.key]) + 1)
            if amount == RESET:
                del sums[event.key]
        rows = {key: row(key, total) for key, total in sums.items()}
        return Expected(rows, dict(kept for key, told in notes.items() for kept in windows(key, len(told))), notes)

    def check(self, generation: int) -> None:
        """Compares all that a generation holds in version 2, and all that was ever told, with what there must be."""
        expected = self.expected()
        sums, numbers, tens = (f"{store.changelog_topic}-g{generation}" for store in COUNTED.stores)
        assert self.content(numbers) == expected.numbers
        assert self.content(sums) == dict(new for old in expected.sums.items() for new in by_first_letter(*old))
        assert self.content(tens) == dict(new for old in expected.tens.items() for new in with_full(*old))
        assert self.notes() == expected.notes
        # Whoever asks for a key's windows asks the node that has the key's partition.
        count = len(end_offsets(self.broker.bootstrap, tens)[tens])
        for record in read_topic(self.broker.bootstrap, tens):
            assert record.partition == partition_for(decode_window_row_key(record.key or b"")[0], count)

    def notes(self) -> dict[bytes, list[int]]:
        """What the app told."""
        told: dict[bytes, list[int]] = defaultdict(list)
        for record in read_topic(self.broker.bootstrap, NOTES):
            told[record.key or b""].append(orjson.loads(record.value or b""))
        return told


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    broker = start_broker(tmp_path / "broker")
    apps = AppProcesses(tmp_path / "run", broker.bootstrap, {"trigger_interval_ms": "200"})
    events = Events(broker.bootstrap)
    try:
        for topic in (EVENTS, f"{COUNTED.name}-dlq", NOTES):
            broker.create_topic(topic)
        for store in COUNTED.stores:
            broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
        events.some(2000)
        yield Place(broker, apps, events)
    finally:
        events.end()
        apps.stop()
        broker.stop()


@pytest.fixture
def node(place: Place) -> Iterator[NodeProcess]:
    """A node that serves both stores."""
    stores = f"{SUMS.name}={SUMS.changelog_topic},{TENS.name}={TENS.changelog_topic}:window"
    (made,) = make_nodes(
        place.broker,
        place.apps.run_dir,
        stores,
        names=("alpha",),
        constants={"storekeeper.node.cluster.replica_reconciler:ReconcilerSettings.handover_s": 0.5},
    )
    with started([made]):
        yield made


def await_answers(place: Place, node: NodeProcess) -> None:
    """Waits until the node answers what there must be in version 2, of a key of each kind."""
    expected = place.expected()
    key, value = next(new for old in expected.sums.items() for new in by_first_letter(*old))
    asked = KEYS[0]
    of_key = [new for old in windows(asked, len(expected.notes[asked])) for new in with_full(*old)]

    def answered() -> bool:
        row = node.value(key.decode(), SUMS.name)
        page = node.get(f"/state/windowed/{TENS.name}/{asked.decode()}/0/{1 << 40}")
        page.raise_for_status()
        found = [item["value"] for item in page.json()]
        return bool(row == orjson.loads(value) and found == [orjson.loads(wanted) for _, wanted in of_key])

    eventually(answered, 60, "the node answers from the new changelogs")


def running(generation: int, batch: int) -> Any:
    def there(beat: Heartbeat) -> bool:
        ran = beat.batch_id is not None and beat.batch_id >= batch
        return beat.state is AppState.RUNNING and beat.generation == generation and ran

    return there


@pytest.mark.long("test_handover.py has it with played apps, test_generations.py with real ones of the tills")
def test_an_app_of_ones_own_changes_rows_and_keys_with_all_that_it_knows(place: Place, node: NodeProcess) -> None:
    live = place.apps.start_module("counted", "storekeeper.cli.entry", "run", APP)
    live.await_caught_up(end_offsets(place.broker.bootstrap, EVENTS))
    seed = place.step("seed", APP, *MIGRATIONS)["generations"][1]
    assert seed["seed_rows"] == place.expected().row_count

    # Nothing is written meanwhile: it runs, and has only the seed.
    beside = place.apps.start_module("counted-next", "storekeeper.cli.entry", "run", "--next", APP)
    beside.await_beat(lambda beat: beat.state is AppState.RUNNING and beat.generation == 2, "runs")
    place.events.begin()
    beside.await_beat(running(2, 2), "runs more batches")

    answer = place.step("handover", APP)
    assert (answer["live"], answer["stores"]) == (2, [store.name for store in COUNTED.stores])
    assert answer["comparison"]["same"] >= seed["seed_rows"] - len(KEYS)
    live.await_beat(running(2, 3), "runs generation 2")
    place.step("retire", APP, "--delete")
    assert beside.await_exit() == 0, beside.log_tail()
    place.events.end()
    live.await_caught_up(end_offsets(place.broker.bootstrap, EVENTS))
    assert live.terminate() == 0, live.log_tail()

    place.check(2)
    await_answers(place, node)


@pytest.mark.long("test_boundary_on_spark.py and test_handover.py have it in parts")
def test_a_generation_that_began_with_a_seed_seeds_another_with_other_partitions(place: Place) -> None:
    live = place.apps.start_module("counted", "storekeeper.cli.entry", "run", APP)
    live.await_caught_up(end_offsets(place.broker.bootstrap, EVENTS))
    for number, change in ((2, MIGRATIONS), (3, ("--partitions", "7"))):
        place.step("seed", APP, *change)
        beside = place.apps.start_module("counted-next", "storekeeper.cli.entry", "run", "--next", APP)
        beside.await_beat(lambda beat: beat.state is AppState.RUNNING, "runs")
        place.events.some(300)
        assert place.step("handover", APP)["comparison"]["same"] > 0
        place.events.some(30)
        live.await_beat(running(number, 0), f"runs generation {number}")
        place.step("retire", APP, "--delete")
        assert beside.await_exit() == 0, beside.log_tail()
    place.events.some(300)
    live.await_caught_up(end_offsets(place.broker.bootstrap, EVENTS))
    assert live.terminate() == 0, live.log_tail()

    place.check(3)
    for third in (f"{store.changelog_topic}-g3" for store in COUNTED.stores):
        assert len(end_offsets(place.broker.bootstrap, third)[third]) == 7
