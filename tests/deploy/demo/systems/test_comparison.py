"""What the comparison of the five systems sees."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from deploy.demo.systems.comparison import compare_systems
from deploy.demo.systems.oracle import Expected


def _expected(**rows: dict[Any, Any]) -> Expected:
    return Expected(**({field.name: {} for field in fields(Expected)} | rows))


def test_equal_stores_do_not_differ() -> None:
    stores = _expected(players={"ann": (7, 1, 7)})
    assert compare_systems(stores, replace(stores)) == []


def test_a_wrong_row_a_missing_one_and_one_too_many_are_named() -> None:
    must = _expected(sales={"0": 1, "1": 1}, prices={"TCS": 1})
    found = _expected(sales={"0": 2, "1": 1}, orders={"order-1": "PLACED"})
    assert [str(difference) for difference in compare_systems(must, found, "node b")] == [
        "prices by node b: TCS: expected 1, found None",
        "orders by node b: order-1: expected None, found PLACED",
        "sales by node b: 0: expected 1, found 2",
    ]
