from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from harness.sales import sale_bytes
from quality.hadoop_export import EXPORT
from spark_apps.records.invoice import parse_invoice
from spark_apps.records.masked import masked_values
from storekeeper.apps.checked_table import WithTopic
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.quality.errors import ValidationError
from storekeeper.quality.reconciliation import Topic, Totals, compare, expected_totals, reach_of

[RULE] = EXPORT.reconcile
assert isinstance(RULE, WithTopic)
TOPIC = RULE.topic
STORES = [f"STR{number}" for number in range(6)]


class FakeTopic(Topic):
    """One line item an offset, stores in turn; every seventh is poison."""

    def __init__(self) -> None:
        """There is no broker."""

    def first_offset(self, partition: int) -> int:
        return 0

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        for offset in range(start, end):
            total = offset + 0.25
            item = {"ItemCode": "1", "ItemDescription": "Chair", "ItemPrice": total, "ItemQty": 1, "TotalValue": total}
            sale = sale_bytes(StoreID=STORES[offset % 6], InvoiceLineItems=[item])
            [value] = masked_values(parse_invoice(b"k", sale))
            yield b"k", value if offset % 7 else b"{"


def staged(start: int, end: int) -> Totals:
    """What an export of these offsets of partition 0 holds."""
    totals = Totals()
    for offset in range(start, end):
        if offset % 7:
            totals.add((0, STORES[offset % 6]), 1, offset + Decimal("0.25"))
    return totals


def position(end: int) -> Position:
    return Position({TOPIC: {0: end}})


def expected(before: Position | None, after: Position) -> Totals:
    assert isinstance(RULE, WithTopic)
    return expected_totals(RULE, reach_of(before, after, TOPIC, lambda _: 0), FakeTopic(), AppSettings(run_dir=Path()))


@pytest.mark.parametrize(("start", "end"), [(0, 40), (12, 40), (40, 41), (21, 28)])
def test_a_whole_batch_is_what_the_topic_says(start: int, end: int) -> None:
    outcomes = compare(RULE, expected(position(start) if start else None, position(end)), staged(start, end))
    assert all(outcome.passed for outcome in outcomes), outcomes


def test_a_declared_function_that_fails_is_named_and_decides_nothing() -> None:
    assert isinstance(RULE, WithTopic)
    wrong = replace(RULE, row=lambda *_: {"StoreID": "STR1"})
    with pytest.raises(ValidationError, match=r"declared with topic hadoop-sink fails \(KeyError\)"):
        expected_totals(wrong, {0: (0, 1)}, FakeTopic(), AppSettings(run_dir=Path()))


def test_a_batch_reaches_over_what_its_commits_moved() -> None:
    before, after = Position({TOPIC: {0: 5, 1: 7}}), Position({TOPIC: {0: 9, 1: 7, 2: 3}, "other": {0: 4}})
    assert reach_of(before, after, TOPIC, lambda _: 0) == {0: (5, 9), 2: (0, 3)}


def test_a_partition_that_is_new_to_a_table_is_compared_from_its_first_record_on() -> None:
    before, after = Position({TOPIC: {0: 5}}), Position({TOPIC: {0: 9, 2: 5020, 3: 40}})
    first = {2: 5000, 3: 40}
    assert reach_of(before, after, TOPIC, first.__getitem__) == {0: (5, 9), 2: (5000, 5020)}
    assert reach_of(None, Position({TOPIC: {2: 5001}}), TOPIC, first.__getitem__) == {2: (5000, 5001)}


def test_missing_repeated_and_foreign_lines_are_counted() -> None:
    whole = expected(None, position(41))
    less = staged(0, 41)
    less.add((0, "STR1"), -1, Decimal("-1.25"))
    assert [(outcome.passed, outcome.failing_rows) for outcome in compare(RULE, whole, less)] == [
        (False, 1),
        (False, 1),
    ]
    more = staged(0, 41)
    more.add((0, "STR1"), 1, 0)
    more.add((3, "STR2"), 4, 0)
    assert [(outcome.passed, outcome.failing_rows) for outcome in compare(RULE, whole, more)] == [
        (False, 5),
        (True, None),
    ]
    assert {outcome.rule for outcome in compare(RULE, whole, more)} == {"completeness"}


def test_a_changed_total_is_seen_where_the_counts_are_right() -> None:
    wrong = staged(0, 41)
    wrong.sums[0, "STR1"] += 1
    wrong.sums[0, "STR2"] -= 1
    lines, totals = compare(RULE, expected(None, position(41)), wrong)
    assert lines.passed
    assert (totals.passed, totals.failing_rows) == (False, 2)
