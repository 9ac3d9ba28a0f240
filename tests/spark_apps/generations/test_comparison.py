from __future__ import annotations

from spark_apps.generations.comparison import behind, conversion
from spark_apps.generations.journal import Generation, GenerationState
from spark_apps.records.loyalty import rewards_value
from state.changelog.position import Position


def generation(number: int, *migrations: str) -> Generation:
    return Generation(number, GenerationState.STARTED, f"topic-{number}", migrations=migrations)


def test_generations_are_compared_in_the_form_of_the_newer_one() -> None:
    tier, region = "rewards-tier", "rewards-by-region"
    first = ("rewards", b"4629", rewards_value("4629", 123_456, 3, 1_500))
    (second,) = conversion("rewards", generation(1), generation(2, tier))(*first)
    (third,) = conversion("rewards", generation(2, tier), generation(3, tier, region))(*second)
    assert conversion("rewards", generation(1), generation(3, tier, region))(*first) == [third]
    assert conversion("rewards", generation(3, tier, region), generation(4))(*third) == [first]
    assert conversion("rewards", generation(2, tier), generation(2, tier))(*second) == [second]


def test_a_row_belongs_into_the_store_that_its_key_leads_to_whichever_way_is_taken() -> None:
    names = ("rewards-tier", "rewards-by-region", "rewards-split", "rewards-merge")
    first = ("rewards", b"4629", rewards_value("4629", 123_456, 3, 1_500))
    (whole,) = conversion("rewards", generation(1), generation(2, *names[:2]))(*first)
    (part,) = conversion("rewards", generation(2, *names[:2]), generation(3, *names[:3]))(*whole)
    assert part[:2] == ("rewards-south", b"4629")
    (merged,) = conversion("rewards", generation(3, *names[:3]), generation(4, *names))(*part)
    assert merged == ("rewards", b"4629", part[2])
    for source, row in ((3, part), (4, merged)):
        back = generation(source, *names[:source])
        assert conversion("rewards", back, generation(5))(*row) == [first]
        assert conversion("rewards", back, generation(6, *names[:2]))(*row) == [whole]


def test_how_far_behind_is_counted_in_records() -> None:
    ahead = Position({"pos": {0: 10, 1: 7, 2: 3}})
    assert behind(ahead, Position({"pos": {0: 4, 1: 9}})) == 9
    assert behind(Position(), ahead) == 0
