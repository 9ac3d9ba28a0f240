"""An app that repartitions through a topic fills a generation from its input. It takes over with nothing on its way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from harness.app_process import AppProcesses
from harness.broker import start_broker
from harness.topics import end_offsets, read_topic, write_topic
from harness.waiting import eventually
from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.engine.runtime.topics import Topics
from tests.integration.generations.generation_steps import GenerationSteps
from tests.integration.grouped_app import GROUPED, GROUPS, ITEMS, TOTALS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

APP = "tests.integration.grouped_app:GROUPED"
KEYS = [b"item-%d" % number for number in range(40)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[GenerationSteps]:
    broker = start_broker(tmp_path / "broker")
    apps = AppProcesses(tmp_path / "run", broker.bootstrap, {"trigger_interval_ms": "200"})
    try:
        for topic in (ITEMS, f"{GROUPED.name}-dlq", TOTALS):
            broker.create_topic(topic)
        for store in GROUPED.stores:
            broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
        yield GenerationSteps(broker, apps)
    finally:
        apps.stop()
        broker.stop()


def write_items(place: GenerationSteps, rng: random.Random, count: int) -> None:
    items = [(rng.choice(KEYS), b"%d" % rng.randrange(100)) for _ in range(count)]
    write_topic(place.broker.bootstrap, ITEMS, items)


def amounts(place: GenerationSteps) -> dict[bytes, list[int]]:
    """All amounts of each item, in order."""
    found: dict[bytes, list[int]] = {}
    for item in read_topic(place.broker.bootstrap, ITEMS):
        found.setdefault(item.key or b"", []).append(int(item.value or b"0"))
    return found


def totals(place: GenerationSteps) -> dict[bytes, bytes]:
    """The totals that there must be."""
    found: Counter[int] = Counter()
    for *_, newest in amounts(place).values():
        found[newest % GROUPS] += newest
    return {b"group %d" % group: b"%d" % total for group, total in found.items()}


def changes(place: GenerationSteps) -> int:
    """How many outputs there must be: one for each group that an amount enters or leaves."""
    return sum(
        1 + sum(1 if old % GROUPS == new % GROUPS else 2 for old, new in pairwise(each))
        for each in amounts(place).values()
    )


def own_topics(place: GenerationSteps) -> list[str]:
    return [name for name in Topics(place.broker.kafka).names() if name.endswith("-repartition")]


@pytest.mark.long("test_handover.py has it with played apps")
def test_a_generation_takes_over_and_back_with_nothing_on_its_way(place: GenerationSteps) -> None:
    rng = random.Random(5)
    write_items(place, rng, 1000)
    live = place.apps.start_module("grouped", "storekeeper.cli.entry", "run", APP)
    live.await_caught_up(end_offsets(place.broker.bootstrap, ITEMS))
    code, answer = place.tried("seed", APP)
    assert (code, "seed --from beginning" in answer["error"]) == (5, True), answer
    place.step("retire", APP, "--delete")
    place.step("seed", APP, "--from", "beginning")
    beside = place.apps.start_module("grouped-next", "storekeeper.cli.entry", "run", "--next", APP)
    beside.await_beat(lambda beat: beat.state is AppState.RUNNING and beat.generation == 3, "runs")
    assert len(own_topics(place)) == 2

    write_items(place, rng, 500)
    answer = place.step("handover", APP)
    assert (answer["live"], answer["comparison"]["holds"]) == (3, True), answer
    write_items(place, rng, 100)
    assert place.step("rollback", APP)["live"] == 1
    write_items(place, rng, 100)
    assert place.step("handover", APP)["live"] == 3
    write_items(place, rng, 100)
    wanted = changes(place)
    eventually(lambda: len(read_topic(place.broker.bootstrap, TOTALS)) >= wanted, 120, "each change is written")
    assert len(read_topic(place.broker.bootstrap, TOTALS)) == wanted
    newest = {output.key: output.value for output in read_topic(place.broker.bootstrap, TOTALS)}
    assert newest == totals(place) == place.content("grouped-totals-changelog-g3")
    place.step("retire", APP, "--delete")
    assert beside.await_exit() == 0, beside.log_tail()
    assert len(own_topics(place)) == 1
    assert live.terminate() == 0, live.log_tail()
