from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.records.loyalty import Purchase, notifications, rewards_value


def exact(value: bytes) -> Any:
    """JSON with its numbers as written."""
    import json

    return json.loads(value, parse_float=Decimal)


def test_a_notification_byte_by_byte() -> None:
    (value,) = notifications("C-1", [Purchase("I-1", 12.5, 2500)], 12_500)
    assert value == (
        b'{"InvoiceNumber":"I-1","CustomerCardNo":"C-1","TotalAmount":12.5,'
        b'"EarnedLoyaltyPoints":0.2500,"TotalLoyaltyPoints":1.2500}'
    )


def test_a_changelog_value_byte_by_byte() -> None:
    assert rewards_value("C-1", -5, 2, 1_595_688_900_348) == (
        b'{"CustomerCardNo":"C-1","TotalLoyaltyPoints":-0.0005,"InvoiceCount":2,"LastInvoiceTime":1595688900348}'
    )


@given(st.integers(-(10**12), 10**12), st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20))
def test_running_totals_are_the_cumulative_sums(before: int, earned: list[int]) -> None:
    purchases = [Purchase(str(index), 0.0, units) for index, units in enumerate(earned)]
    values = [exact(value) for value in notifications("C", purchases, before + sum(earned))]
    running = Decimal(before)
    for index, value in enumerate(values):
        running += earned[index]
        assert value["InvoiceNumber"] == str(index)
        assert value["EarnedLoyaltyPoints"] * 10_000 == earned[index]
        assert value["TotalLoyaltyPoints"] * 10_000 == running


@given(st.text(), st.text(), st.floats(min_value=-1e9, max_value=1e9))
def test_any_text_makes_json(card: str, invoice: str, amount: float) -> None:
    card, invoice = (text.encode(errors="replace").decode() for text in (card, invoice))
    (value,) = notifications(card, [Purchase(invoice, amount, 0)], 0)
    read = orjson.loads(value)
    assert (read["CustomerCardNo"], read["InvoiceNumber"], read["TotalAmount"]) == (card, invoice, amount)
    assert orjson.loads(rewards_value(card, 0, 0, 0))["CustomerCardNo"] == card
