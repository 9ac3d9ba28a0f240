from __future__ import annotations

from spark_apps.generations.comparison import behind, conversion
from spark_apps.generations.journal import Generation, GenerationState
from spark_apps.records.loyalty import rewards_value
from state.changelog.position import Position


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
