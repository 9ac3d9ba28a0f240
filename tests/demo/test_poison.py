"""Poison: every kind, unlike each other, and really not processable."""

from __future__ import annotations

from collections import Counter

import pytest

from demo.invoices import invoice_records, load_purchases
from demo.poison import poison_records, spread
from spark_apps.records.invoice import parse_invoice
from storekeeper.apps.records import PoisonRecordError

GOOD = invoice_records(load_purchases(200))


def test_each_one_is_refused_by_the_apps() -> None:
    for record in poison_records(160, GOOD):
        with pytest.raises(PoisonRecordError):
            parse_invoice(record.key, record.value)


def test_all_kinds_are_there_as_often_as_the_others() -> None:
    kinds = Counter(record.kind for record in poison_records(160, GOOD))
    assert set(kinds.values()) == {10}
    assert {"malformed", "truncated", "null key", "oversized", "wrong type"} <= set(kinds)


def test_no_two_are_alike_and_they_are_the_same_every_time() -> None:
    first, second = poison_records(1000, GOOD), poison_records(1000, GOOD)
    assert first == second
    assert len({(record.key, record.value) for record in first}) == 1000


@pytest.mark.parametrize(("count", "among"), [(0, 5), (1, 0), (3, 10), (10, 3), (1000, 4000)])
def test_spreading_keeps_both_orders(count: int, among: int) -> None:
    merged = spread([f"p{n}" for n in range(count)], list(range(among)))
    assert [item for item in merged if isinstance(item, str)] == [f"p{n}" for n in range(count)]
    assert [item for item in merged if isinstance(item, int)] == list(range(among))


def test_spreading_is_even() -> None:
    merged = spread(["p"] * 4, list(range(100)))
    assert [index for index, item in enumerate(merged) if item == "p"] == [20, 41, 62, 83]
