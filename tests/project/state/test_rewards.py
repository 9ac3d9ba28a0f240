"""The rows of the rewards in each version, and the conversions between them."""

from __future__ import annotations

from decimal import Decimal

import orjson
import pytest

from state.rewards import MIGRATIONS, Rewards, TieredRewards, card_of, region_of, regional_row, tiered_row
from storekeeper import StructSerde

ROW = Rewards("4629185207", Decimal("1234.5678"), 3, 1_595_688_900_348)


def test_a_tier_and_whole_cents_lose_no_point() -> None:
    [(key, value)] = tiered_row(b"4629185207", StructSerde(Rewards).serialize(ROW))
    row = StructSerde(TieredRewards).deserialize(value)
    assert (key, row.total) == (b"4629185207", ROW.total)
    assert {name: orjson.loads(value)[name] for name in ("Tier", "TotalLoyaltyPointsCents", "HundredthsOfCent")} == {
        "Tier": "SILVER", "TotalLoyaltyPointsCents": 123456, "HundredthsOfCent": 78,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("total", "cents", "hundredths"), [("-0.0001", -1, 99), ("0.0100", 1, 0), ("-1.0000", -100, 0)]
)
def test_hundredths_of_a_cent_are_never_negative(total: str, cents: int, hundredths: int) -> None:
    row = TieredRewards.of(Rewards("1", Decimal(total)))
    assert (row.cents, row.hundredths, row.total) == (cents, hundredths, Decimal(total))


def test_a_key_with_its_region_still_ends_with_the_card() -> None:
    [(key, value)] = regional_row(b"4629185207", b"{}")
    assert (key, value, card_of(key.decode())) == (b"north|4629185207", b"{}", "4629185207")
    assert region_of("x") == region_of("") == "other"


def test_versions_follow_one_another() -> None:
    assert [migration.to_version for migration in MIGRATIONS] == [2, 3]
