from __future__ import annotations

import pytest

from storekeeper.changelog.position import Position
from storekeeper.generations.comparison import chain_between
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState
from storekeeper.generations.status import behind


def generation(number: int, *migrations: str) -> Generation:
    return Generation(number, GenerationState.STARTED, {"rewards": f"topic-{number}"}, migrations=migrations)


def test_rows_are_converted_by_what_the_newer_generation_has_beyond_the_older() -> None:
    tier, region = "rewards-tier", "rewards-by-region"
    row = (b"4629", b'{"CustomerCardNo":"4629","TotalLoyaltyPoints":12.3456,"InvoiceCount":3,"LastInvoiceTime":1500}')
    (second,) = chain_between(generation(1), generation(2, tier)).convert(*row)
    (third,) = chain_between(generation(2, tier), generation(3, tier, region)).convert(*second)
    assert chain_between(generation(1), generation(3, tier, region)).convert(*row) == [third]
    assert chain_between(generation(2, tier), generation(3, tier)).convert(*second) == [second]


def test_generations_that_do_not_follow_on_each_other_are_not_compared() -> None:
    with pytest.raises(GenerationRefusedError, match="generation 3 does not follow on generation 2"):
        chain_between(generation(2, "rewards-tier"), generation(3))


def test_how_far_behind_is_counted_in_records() -> None:
    ahead = Position({"pos": {0: 10, 1: 7, 2: 3}})
    assert behind(ahead, Position({"pos": {0: 4, 1: 9}})) == 9
    assert behind(Position(), ahead) == 0
