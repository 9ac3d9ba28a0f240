"""The oracle of the smaller apps: right for what their topologies write under crashes, and no blunder escapes it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from harness.crashes.inputs import SYSTEMS, kind_of, poison, sales, system_steps
from harness.crashes.oracle import Difference
from harness.crashes.systems import SOURCES, SystemsOracle
from harness.topics import Record
from storekeeper.apps.registry import APPS
from tests.faults.poison_runs import PoisonRun, ToTopic

Change = Callable[[list[Record]], list[Record]]
OUTPUTS = {
    "ticks": ("ticks-prices-changelog", "ticks-dlq"),
    "leaderboard": ("leaderboard-players-changelog", "leaderboard-products-changelog", "leaderboard-dlq"),
    "order_location": ("order_location-orders-changelog", "order-locations", "order_location-dlq"),
    "session_tracker": ("session_tracker-user-sessions-changelog", "session_tracker-dlq"),
    "sales_windows": ("sales_windows-sales-changelog", "sales_windows-sales-hopping-changelog"),
}

WRONG = {
    "dlq.topic": b"another",
    "dlq.partition": b"7",
    "dlq.offset": b"-7",
    "dlq.error.class": b"",
    "dlq.error.message": b"",
    "dlq.app": b"another",
}


def records() -> list[ToTopic]:
    """Good records of all topics, and each kind of poison somewhere among them."""
    rng = random.Random(1)
    found = [*next(sales(1, 60)), *next(system_steps(1, 1800))]
    for topic in ("pos", *SYSTEMS):
        for bad in poison(topic).values():
            found.insert(rng.randint(0, len(found)), (topic, bad))
    return found


def run_of(app: str) -> PoisonRun:
    run = PoisonRun(APPS[app], random.Random(app))
    run.give(record for record in records() if record[0] in SOURCES[app])
    return run


def differences(run: PoisonRun, output: str = "", change: Change = list) -> list[Difference]:
    """What the oracle finds wrong with one app's outputs, after a change of one of them."""
    app = run.spec.name

    def read(topic: str) -> list[Record]:
        if topic in run.arrived or topic in OUTPUTS[app]:
            found = run.read(topic)
            return change(found) if topic == output else found
        return []

    found = SystemsOracle(read, kind_of).differences()
    return [difference for difference in found if difference.output in OUTPUTS[app] and not difference.none]


@pytest.mark.parametrize("app", SOURCES)
def test_an_app_that_crashes_over_and_over_has_no_differences_and_no_blunder_escapes(app: str) -> None:
    run = run_of(app)
    assert differences(run) == []
    for output in OUTPUTS[app]:
        (missing,) = differences(run, output, _without_a_row)
        assert (missing.output, missing.lost) == (output, 1)
        if output.endswith("-dlq"):
            (twice,) = differences(run, output, lambda letters: [*letters, letters[-1]])
            assert (twice.lost, twice.doubled) == (0, 1)
            for header, wrong in WRONG.items():
                (found,) = differences(run, output, partial(_with, header, wrong))
                assert (found.lost, found.doubled) == (1, 1)


def _without_a_row(records: list[Record]) -> list[Record]:
    key = next(record.key for record in reversed(records) if record.value is not None)
    last = max(at for at, record in enumerate(records) if record.key == key and record.value is not None)
    if not records[0].headers:  # a changelog: the rows before would stand
        return [record for record in records if record.key != key]
    return [record for at, record in enumerate(records) if at != last]


def _with(header: str, value: bytes, letters: list[Record]) -> list[Record]:
    first, *others = letters
    return [replace(first, headers={**first.headers, header: value}), *others]
