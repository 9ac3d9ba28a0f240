from __future__ import annotations

from collections.abc import Iterator

import pytest

from quality.reconciliation import LineTotals, compare, expected_totals, reach_of
from spark_apps.hadoop_export.progress import ExportProgress
from state.changelog.partitioner import partition_for
from tests.spark_apps.records.sales import sale_bytes

SINKS = 4
STORES = [f"STR{number}" for number in range(6)]


def line(total: float) -> dict[str, object]:
    return {"ItemCode": "1", "ItemDescription": "Chair", "ItemPrice": total, "ItemQty": 1, "TotalValue": total}


class FakeTopic:
    """Partition 0: one invoice an offset, of two lines, stores in turn; every seventh is poison."""

    def first_offset(self, partition: int) -> int:
        return 0

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        assert partition == 0
        for offset in range(start, end):
            lines = [line(offset + 0.25), line(10.1)]
            yield offset, b"k", sale_bytes(StoreID=STORES[offset % 6], InvoiceLineItems=lines) if offset % 7 else b"{"

    def sink_partition(self, store: str) -> int:
        return partition_for(store.encode(), SINKS)


def staged(first: int, last: int) -> LineTotals:
    """What an export of these offsets, both inclusive, holds."""
    totals = LineTotals()
    for offset in range(first, last + 1):
        if offset % 7:
            totals.add(("pos/0", STORES[offset % 6]), 2, 10_000 * offset + 2_500 + 101_000)
    return totals


def progress(last: int) -> ExportProgress:
    """The export has everything up to this offset: per partition of the sink, the last invoice that went there."""
    places: dict[int, dict[str, tuple[int, int]]] = {}
    for offset in range(last + 1):
        if offset % 7:
            places[partition_for(STORES[offset % 6].encode(), SINKS)] = {"pos/0": (offset, 1)}
    return ExportProgress(places)


def expected(before: ExportProgress | None, after: ExportProgress) -> LineTotals:
    return expected_totals(reach_of(before, after), FakeTopic(), max_record_bytes=100_000, code_digits=9)


@pytest.mark.parametrize(("first", "last"), [(0, 40), (12, 40), (40, 40), (21, 27)])
def test_a_whole_batch_is_what_the_invoices_say(first: int, last: int) -> None:
    before = progress(first - 1) if first else None
    outcomes = compare(expected(before, progress(last)), staged(first, last))
    assert all(outcome.passed for outcome in outcomes), outcomes


def test_missing_repeated_and_foreign_lines_are_counted() -> None:
    whole = expected(None, progress(40))
    less = staged(0, 40)
    less.add(("pos/0", "STR1"), -1, -101_000)
    assert [(outcome.passed, outcome.failing_rows) for outcome in compare(whole, less)] == [(False, 1), (False, 1)]
    more = staged(0, 40)
    more.add(("pos/0", "STR1"), 1, 0)
    more.add(("pos/3", "STR2"), 4, 0)
    assert [(outcome.passed, outcome.failing_rows) for outcome in compare(whole, more)] == [(False, 5), (True, None)]
    assert {outcome.rule for outcome in compare(whole, more)} == {"completeness"}


def test_a_changed_total_is_seen_where_the_counts_are_right() -> None:
    wrong = staged(0, 40)
    wrong.units["pos/0", "STR1"] += 1
    wrong.units["pos/0", "STR2"] -= 1
    lines, totals = compare(expected(None, progress(40)), wrong)
    assert lines.passed
    assert (totals.passed, totals.failing_rows) == (False, 2)


def test_a_batch_may_end_within_an_invoice() -> None:
    first = ExportProgress({partition_for(b"STR1", SINKS): {"pos/0": (1, 0)}})
    second = ExportProgress({partition_for(b"STR1", SINKS): {"pos/0": (1, 1)}})
    assert expected(None, first).units == {("pos/0", "STR1"): 12_500}
    assert expected(first, second).units == {("pos/0", "STR1"): 101_000}
    assert expected(second, second).units == {}
