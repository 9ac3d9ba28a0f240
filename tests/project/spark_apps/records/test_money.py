from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.records.money import PointsFactor, format_units, to_units

amounts = st.decimals(min_value=-1_000_000_000, max_value=1_000_000_000, places=2)
long_amounts = st.decimals(min_value=-1_000_000, max_value=1_000_000, places=6)


def as_till(amount: Decimal) -> float:
    """The float that reading the amount's JSON gives."""
    number = orjson.loads(str(amount))
    assert isinstance(number, int | float)
    return number


@given(amounts)
def test_two_decimals_are_exact(amount: Decimal) -> None:
    assert to_units(as_till(amount)) == amount * 10_000
    assert PointsFactor(Decimal("0.02")).earned_units(as_till(amount)) == amount * 200


@given(long_amounts, st.decimals(min_value=0, max_value=1, places=5))
def test_more_decimals_round_half_away_from_zero(amount: Decimal, factor: Decimal) -> None:
    assert to_units(as_till(amount)) == (amount * 10_000).quantize(Decimal(1), ROUND_HALF_UP)
    expected = (amount * factor * 10_000).quantize(Decimal(1), ROUND_HALF_UP)
    assert PointsFactor(factor).earned_units(as_till(amount)) == expected


@given(st.lists(amounts, max_size=50), st.randoms())
def test_a_sum_is_exact_in_any_order(amounts: list[Decimal], random: object) -> None:
    factor = PointsFactor(Decimal("0.02"))
    earned = [factor.earned_units(as_till(amount)) for amount in amounts]
    random.shuffle(earned)  # type: ignore[attr-defined]
    assert Decimal(format_units(sum(earned))) == sum(amounts) * Decimal("0.02")


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_text_is_json_with_four_decimals(units: int) -> None:
    text = format_units(units)
    assert Decimal(text) * 10_000 == units
    assert len(text.rpartition(".")[2]) == 4
    orjson.loads(text)


@pytest.mark.parametrize(
    ("units", "text"),
    [(0, "0.0000"), (1, "0.0001"), (-1, "-0.0001"), (10_000, "1.0000"), (-12_345, "-1.2345"), (-9_999, "-0.9999")],
)
def test_small_and_negative_numbers(units: int, text: str) -> None:
    assert format_units(units) == text


@pytest.mark.parametrize(("amount", "units"), [(0.1 + 0.2, 3_000), (1e-05, 0), (0.00005, 1), (-0.00005, -1), (-0.0, 0)])
def test_what_adding_floats_leaves_behind_is_rounded_away(amount: float, units: int) -> None:
    assert to_units(amount) == units
