"""Poison of many kinds: each record is in the result or in the dead letters, once, and the rest is as without it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from harness.crashes.careless import FAILS
from harness.poison import BAD_TEXT_KEYS, POISON, TIMED_POISON
from harness.project_apps import SYSTEM_APPS
from storekeeper.apps.registry import APPS
from tests.faults.poison_runs import PoisonRun, bad_records, careless_run, good_records, strewn


def test_there_are_many_kinds_of_poison() -> None:
    assert len(POISON) + len(TIMED_POISON) + len(BAD_TEXT_KEYS) + len(FAILS) > 100
    assert len({poison[:2] for poison in POISON.values()}) == len(POISON)


@pytest.mark.parametrize("app", ["pos", *SYSTEM_APPS])
def test_an_app_goes_on_as_if_poison_had_never_come(app: str) -> None:
    rng = random.Random(app)
    good = good_records(app)
    clean, poisoned = PoisonRun(APPS[app], rng), PoisonRun(APPS[app], rng)
    clean.give(good)
    records = strewn(rng, good, list(bad_records(app)))
    poisoned.give(record for record, _ in records)
    assert clean.letters == Counter()
    assert (poisoned.rows, poisoned.outputs) == (clean.rows, clean.outputs)
    seen = {topic: iter(arrived) for topic, arrived in poisoned.arrived.items()}
    places = [(topic, next(seen[topic]), is_good) for (topic, _), is_good in records]
    bad = [(topic, record.partition, record.offset) for topic, record, is_good in places if not is_good]
    assert poisoned.letters == Counter(bad)
    assert len(bad) > 70


@pytest.mark.parametrize(("seed", "bad_share"), [(1, 0.01), (2, 0.2), (3, 0.95)])
def test_each_record_that_a_function_fails_on_is_in_the_result_or_in_the_dead_letters_once(
    seed: int, bad_share: float
) -> None:
    oracle, differences = careless_run(seed, 1500, bad_share)
    assert differences == []
    assert bad_share < 0.2 or set(FAILS) < oracle.kinds.keys()


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_one_that_is_left_out_holds_up_no_other_of_a_batch_that_is_longer_than_its_windows(seed: int) -> None:
    _, differences = careless_run(seed, 4000, 0.03, step_ms=1000, sizes=(4000, 4000))
    assert differences == []


@pytest.mark.long("test_each_record_that_a_function_fails_on_is_in_the_result_or_in_the_dead_letters_once")
@pytest.mark.parametrize("first", range(10, 110, 10))  # each within the time of a test
def test_it_holds_for_many_orders_and_crashes(first: int) -> None:
    rng = random.Random(first)
    for seed in range(first, first + 10):
        _, differences = careless_run(seed, 2000, rng.choice([0.01, 0.03, 0.1, 0.5, 0.95]))
        assert differences == [], seed
