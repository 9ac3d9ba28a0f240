from __future__ import annotations

from dataclasses import replace

from spark_apps.generations.comparison import behind, conversion
from spark_apps.generations.journal import Generation, GenerationState
from spark_apps.records.loyalty import rewards_value
from state.changelog.position import Position


def generation(number: int, *migrations: str) -> Generation:
    return Generation(number, GenerationState.STARTED, {"rewards": f"topic-{number}"}, migrations=migrations)


def test_generations_are_compared_in_the_form_of_the_newer_one() -> None:
    tier, region = "rewards-tier", "rewards-by-region"
    first = ("rewards", b"4629", rewards_value("4629", 123_456, 3, 1_500))
    (second,) = conversion(generation(1), generation(2, tier))(*first)
    (third,) = conversion(generation(2, tier), generation(3, tier, region))(*second)
    assert conversion(generation(1), generation(3, tier, region))(*first) == [third]
    assert conversion(generation(3, tier, region), generation(4))(*third) == [first]
    assert conversion(generation(2, tier), generation(2, tier))(*second) == [second]


def test_a_row_belongs_into_the_store_that_its_key_leads_to_whichever_way_is_taken() -> None:
    names = ("rewards-tier", "rewards-by-region", "rewards-split", "rewards-merge")
    first = ("rewards", b"4629", rewards_value("4629", 123_456, 3, 1_500))
    (whole,) = conversion(generation(1), generation(2, *names[:2]))(*first)
    (part,) = conversion(generation(2, *names[:2]), generation(3, *names[:3]))(*whole)
    assert part[:2] == ("rewards-south", b"4629")
    (merged,) = conversion(generation(3, *names[:3]), generation(4, *names))(*part)
    assert merged == ("rewards", b"4629", part[2])
    for source, row in ((3, part), (4, merged)):
        back = generation(source, *names[:source])
        assert conversion(back, generation(5))(*row) == [first]
        assert conversion(back, generation(6, *names[:2]))(*row) == [whole]


def test_a_row_goes_through_the_changes_of_its_own_store() -> None:
    names = tuple(f"tests.integration.counted_app:{name}" for name in ("BY_LETTER", "WITH_FULL"))
    topics = {"sums": "sums-1", "tens": "tens-1"}
    first = Generation(1, GenerationState.LIVE, topics)
    second, third = (replace(first, number=number, migrations=names[: number - 1]) for number in (2, 3))
    window = ("tens", b"window", b'{"Events":10}')
    assert conversion(first, second)(*window) == [window]
    (full,) = conversion(second, third)(*window)
    assert full == ("tens", b"window", b'{"Events":10,"Full":true}')
    assert conversion(third, second)(*full) == [window]
    assert conversion(third, first)("sums", b"x|x9", b'{"Key":"x9","Sum":4,"Even":true}') == [
        ("sums", b"x9", b'{"Key":"x9","Sum":4}')
    ]


def test_how_far_behind_is_counted_in_records() -> None:
    ahead = Position({"pos": {0: 10, 1: 7, 2: 3}})
    assert behind(ahead, Position({"pos": {0: 4, 1: 9}})) == 9
    assert behind(Position(), ahead) == 0
