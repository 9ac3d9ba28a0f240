"""Dead letters: all the poison, unharmed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from demo.comparison import Observation, TopicRecord, compare_dead_letters
from demo.invoices import Record

POISON = [Record("pos", b"STR1", b"{"), Record("pos", None, b"{}")]


@pytest.fixture
def observed() -> Observation:
    right = Observation()
    for offset, record in enumerate(POISON):
        headers = {
            "dlq.topic": "pos",
            "dlq.partition": "2",
            "dlq.offset": str(offset),
            "dlq.timestamp": "1000",
            "dlq.app": "pos",
            "dlq.error.class": "PoisonRecordError",
            "dlq.error.message": "why",
            "dlq.operator": "pos",
        }
        right.dead_letters.append(TopicRecord(0, offset, record.key, record.value, headers))
        right.input_at[2, offset] = TopicRecord(2, offset, record.key, record.value)
    return right


def test_all_there_is_no_difference(observed: Observation) -> None:
    assert compare_dead_letters(POISON, observed) == []


def _lose_one(o: Observation) -> None:
    del o.dead_letters[0]


def _change_its_bytes(o: Observation) -> None:
    o.dead_letters[0] = replace(o.dead_letters[0], value=b"}")


def _repeat_it(o: Observation) -> None:
    o.dead_letters.append(o.dead_letters[0])


def _report_a_good_one(o: Observation) -> None:
    headers = o.dead_letters[0].headers | {"dlq.offset": "9"}
    o.dead_letters.append(replace(o.dead_letters[0], key=b"STR2", value=b"good", headers=headers))


def _name_a_wrong_place(o: Observation) -> None:
    o.dead_letters[0].headers["dlq.offset"] = "7"


def _name_a_wrong_app(o: Observation) -> None:
    o.dead_letters[0].headers["dlq.app"] = "sales_windows"


def _forget_why(o: Observation) -> None:
    del o.dead_letters[0].headers["dlq.error.message"]


@pytest.mark.parametrize(
    "spoil",
    [
        *(_lose_one, _change_its_bytes, _repeat_it, _report_a_good_one),
        *(_name_a_wrong_place, _name_a_wrong_app, _forget_why),
    ],
)
def test_every_planted_difference_is_found(observed: Observation, spoil: Callable[[Observation], None]) -> None:
    spoil(observed)
    assert compare_dead_letters(POISON, observed) != []
