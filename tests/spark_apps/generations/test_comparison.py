from __future__ import annotations

import pytest

from spark_apps.generations.comparison import Change, Comparison, behind, compared, conversion
from spark_apps.generations.journal import Generation, GenerationState
from spark_apps.generations.migration import StoreRecord
from spark_apps.records.loyalty import rewards_value
from state.changelog.position import Position


def doubled(key: bytes, value: bytes) -> list[StoreRecord]:
    return [] if value == b"drop" else [(b"new-" + key, str(2 * int(value)).encode())]


SOURCE: list[Change] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"a", b"4"), (b"c", None), (b"d", b"drop")]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ([(b"new-a", b"8"), (b"new-b", b"4")], Comparison(2, 0, 0, 0, 0)),
        ([(b"new-a", b"2"), (b"new-b", b"4"), (b"new-a", b"8")], Comparison(2, 0, 0, 0, 0)),
        ([(b"new-a", b"2"), (b"new-b", b"4")], Comparison(1, 1, 0, 0, 0)),
        ([(b"new-a", b"8"), (b"new-b", b"4"), (b"new-b", None)], Comparison(1, 0, 1, 0, 0)),
        ([(b"new-a", b"8"), (b"new-b", b"4"), (b"new-c", b"6")], Comparison(2, 0, 0, 1, 0)),
    ],
)
def test_every_row_is_looked_for_and_none_may_be_left(target: list[Change], found: Comparison) -> None:
    assert compared(iter(SOURCE), iter(target), doubled) == found
    assert found.holds == (found == Comparison(2, 0, 0, 0, 0))


def test_a_row_that_cannot_be_converted_is_counted() -> None:
    found = compared(iter([(b"a", b"x"), (b"b", b"2")]), iter([(b"new-b", b"4")]), doubled)
    assert found == Comparison(1, 0, 0, 0, 1)
    assert not found.holds


def generation(number: int, *migrations: str) -> Generation:
    return Generation(number, GenerationState.STARTED, f"topic-{number}", migrations=migrations)


def test_generations_are_compared_in_the_form_of_the_newer_one() -> None:
    tier, region = "rewards-tier", "rewards-by-region"
    first = (b"4629", rewards_value("4629", 123_456, 3, 1_500))
    (second,) = conversion(generation(1), generation(2, tier))(*first)
    (third,) = conversion(generation(2, tier), generation(3, tier, region))(*second)
    assert conversion(generation(1), generation(3, tier, region))(*first) == [third]
    assert conversion(generation(3, tier, region), generation(4))(*third) == [first]
    assert conversion(generation(2, tier), generation(2, tier))(*second) == [second]


def test_how_far_behind_is_counted_in_records() -> None:
    ahead = Position({"pos": {0: 10, 1: 7, 2: 3}})
    assert behind(ahead, Position({"pos": {0: 4, 1: 9}})) == 9
    assert behind(Position(), ahead) == 0
