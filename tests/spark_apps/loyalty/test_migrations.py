from __future__ import annotations

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.generations.catalog import chain_of, migrations_of
from spark_apps.loyalty.migrations import (
    REWARDS_BY_REGION,
    REWARDS_MERGE,
    REWARDS_SPLIT,
    REWARDS_TIER,
    region_of,
    tier_of,
)
from spark_apps.loyalty.seeding import GROUPS, SEED_BATCH_ID, seed_row
from spark_apps.records.loyalty import rewards_value

cards = st.text(st.characters(codec="utf-8", exclude_characters="|"), max_size=8).map(lambda text: f"{text}52")
units = st.integers(-(10**15), 10**15)


@given(cards, units, st.integers(0, 10**9), st.integers(0, 2**45))
def test_every_row_comes_back_from_every_version_to_the_byte(card: str, points: int, count: int, at_ms: int) -> None:
    first = (card.encode(), rewards_value(card, points, count, at_ms))
    chain = chain_of([REWARDS_TIER.name, REWARDS_BY_REGION.name])
    (third,) = chain.convert(*first)
    assert chain.revert(*third) == first
    assert third[0].endswith(b"|" + card.encode())
    content = orjson.loads(third[1])
    assert content["TotalLoyaltyPointsCents"] * 100 + content["HundredthsOfCent"] == points
    assert 0 <= content["HundredthsOfCent"] < 100
    apart = chain_of([*(step.name for step in chain.steps), REWARDS_SPLIT.name])
    ((store, key, value),) = apart.placed("rewards", *first)
    assert (store, key) == (f"rewards-{region_of(card)}", card.encode())
    assert apart.revert(key, value) == first
    together = chain_of([*(step.name for step in apart.steps), REWARDS_MERGE.name])
    assert together.placed("rewards", *first) == [("rewards", key, value)]
    assert together.revert(key, value) == first


def test_a_tier_comes_with_its_first_point() -> None:
    tiers = [tier_of(points) for points in (-5, 9_999_999, 10_000_000, 99_999_999, 100_000_000)]
    assert tiers == ["BRONZE", "BRONZE", "SILVER", "SILVER", "GOLD"]


def test_a_card_tells_its_region() -> None:
    assert [region_of(f"46291852{digit}7") for digit in range(5)] == ["north", "east", "south", "west", "north"]


@pytest.mark.parametrize("card", ["", "7", "4629-X1", "46२1"])
def test_a_card_without_a_region_is_not_guessed(card: str) -> None:
    with pytest.raises(ValueError, match="must end in digits"):
        region_of(card)


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b"[]",
        b'{"CustomerCardNo":"1","TotalLoyaltyPoints":"7","InvoiceCount":1,"LastInvoiceTime":1,"Note":""}',
        b'{"CustomerCardNo":"1","TotalLoyaltyPoints":7.0,"InvoiceCount":1.5,"LastInvoiceTime":1}',
    ],
)
def test_a_value_that_would_lose_something_is_refused(value: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        chain_of([REWARDS_TIER.name]).convert(b"1", value)


def test_the_migrations_of_the_store_follow_each_other() -> None:
    assert migrations_of("rewards") == (REWARDS_TIER, REWARDS_BY_REGION, REWARDS_SPLIT, REWARDS_MERGE)
    for migration in migrations_of("rewards"):
        assert migration.revert is not None


def test_a_customer_becomes_a_row_of_the_seed() -> None:
    row = seed_row(b"4629", rewards_value("4629", 123_456, 3, 1_500))
    assert row == ("4629", 123_456, 3, 1_500, b"[]", SEED_BATCH_ID)
    assert len(row) == len(GROUPS)


def test_a_row_under_another_customers_key_is_no_seed() -> None:
    with pytest.raises(ValueError, match="is not the customer's card"):
        seed_row(b"4630", rewards_value("4629", 1, 1, 1))
