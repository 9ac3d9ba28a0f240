from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.generations.changes.contract import AppTopology
from storekeeper.generations.changes.plan import Verdict, topology_changes

RUNNING = AppTopology(
    "pos",
    1,
    (),
    {"pairs-left": "window", "pairs-right": "window"},
    {"pos-by-card-repartition": "shuffle", "pos-by-city-repartition": "topic"},
    {"pos": ["topic pos"], "rates": ["topic rates", "store rates"]},
)


def verdicts(declared: AppTopology) -> dict[str, Verdict]:
    return {change.store: change.verdict for change in topology_changes(declared, RUNNING)}


def test_what_is_declared_as_it_runs_stays() -> None:
    assert set(verdicts(RUNNING).values()) == {Verdict.UNCHANGED}
    assert verdicts(RUNNING).keys() == {*RUNNING.stores, *RUNNING.repartitions}


def test_what_an_operator_more_brings_is_new() -> None:
    more = replace(
        RUNNING,
        stores={**RUNNING.stores, "counts": "versioned"},
        repartitions={**RUNNING.repartitions, "pos-by-shop-repartition": "topic"},
    )
    found = verdicts(more)
    assert {name for name, verdict in found.items() if verdict is Verdict.NEW} == {"counts", "pos-by-shop-repartition"}
    assert Verdict.BREAKS not in found.values()


@pytest.mark.parametrize(
    ("declared", "name", "says"),
    [
        (replace(RUNNING, stores={"pairs-left": "window"}), "pairs-right", "would belong to nobody"),
        (replace(RUNNING, stores={**RUNNING.stores, "pairs-left": "session"}), "pairs-left", "those of kind window"),
        (
            replace(RUNNING, repartitions={"pos-by-city-repartition": "topic"}),
            "pos-by-card-repartition",
            "stream times",
        ),
        (
            replace(RUNNING, repartitions=dict.fromkeys(RUNNING.repartitions, "shuffle")),
            "pos-by-city-repartition",
            "records in flight in the topic would be lost",
        ),
        (
            replace(RUNNING, slots={"pos": ["topic pos", "topic rates", "store rates"]}),
            "tasks of pos",
            "meet in the same tasks now, and were in those of pos and of rates",
        ),
    ],
)
def test_what_would_orphan_state_breaks(declared: AppTopology, name: str, says: str) -> None:
    [broken] = [change for change in topology_changes(declared, RUNNING) if change.verdict is Verdict.BREAKS]
    assert broken.store == name
    assert says in broken.details[0]


def test_a_topic_in_place_of_a_shuffle_breaks_nothing() -> None:
    declared = replace(RUNNING, repartitions=dict.fromkeys(RUNNING.repartitions, "topic"))
    assert Verdict.BREAKS not in verdicts(declared).values()


def test_tasks_that_read_more_go_on() -> None:
    assert Verdict.BREAKS not in verdicts(replace(RUNNING, slots={
        "accounts": ["topic accounts", "topic pos"], "rates": ["store rates", "topic courses"],
    })).values()  # fmt: skip
