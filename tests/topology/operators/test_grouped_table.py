from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError, InvalidArgumentError, NullKeyError
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.topology.aggregator import Aggregator, count, reduction
from storekeeper.topology.operators.grouped_table import TableAggregation
from storekeeper.topology.records import Change

from .built import grouped, source_table
from .dict_stores import DictTable
from .observed import Observed

TRACE: Aggregator[str, str, str] = Aggregator(
    initialize=lambda: "0",
    add=lambda _key, value, aggregate: f"{aggregate}+{value}",
    subtract=lambda _key, value, aggregate: f"{aggregate}-{value}",
)


def test_the_old_value_goes_out_before_the_new_one_comes_in() -> None:
    source = source_table(DictTable())
    observed = Observed(grouped(source, lambda key, value: (key, value), TRACE, DictTable()))
    log = [
        ("A", "1", 10),
        ("B", "2", 15),
        ("A", "3", 20),
        ("B", "4", 18),
        ("C", "5", 5),
        ("B", "7", 15),
        ("C", "8", 10),
    ]
    for key, value, timestamp in log:
        source.upsert(key, value, timestamp)
    assert observed.rows() == [
        ("A", "0+1", 10),
        ("B", "0+2", 15),
        ("A", "0+1-1+3", 20),
        ("B", "0+2-2+4", 18),
        ("C", "0+5", 5),
        ("B", "0+2-2+4-4+7", 18),
        ("C", "0+5-5+8", 10),
    ]


def test_rows_move_between_groups_and_may_belong_to_none() -> None:
    source = source_table(DictTable())

    def by_value(key: str, value: str) -> tuple[str | None, str] | None:
        return {"null": (None, value), "NULL": None}.get(key, (value, value))

    observed = Observed(grouped(source, by_value, TRACE, DictTable()))
    log: list[tuple[str, str | None, int]] = [
        ("A", "1", 10),
        ("A", None, 15),
        ("A", "1", 12),
        ("B", "2", 20),
        ("null", "3", 25),
        ("B", "4", 23),
        ("NULL", "5", 24),
        ("B", "7", 22),
    ]
    for key, value, timestamp in log:
        source.upsert(key, value, timestamp)
    assert observed.rows() == [
        ("1", "0+1", 10),
        ("1", "0+1-1", 15),
        ("1", "0+1-1+1", 15),
        ("2", "0+2", 20),
        ("2", "0+2-2", 23),
        ("4", "0+4", 23),
        ("4", "0+4-4", 23),
        ("7", "0+7", 22),
    ]


def test_counts_of_rows_that_change_groups() -> None:
    source = source_table(DictTable())
    counts = grouped(source, lambda key, value: (value, key), count(), DictTable())
    observed = Observed(counts)
    log = [("A", "green", 10), ("B", "green", 9), ("A", "blue", 12), ("C", "yellow", 15), ("D", "green", 11)]
    for key, value, timestamp in log:
        source.upsert(key, value, timestamp)
    assert observed.rows() == [
        ("green", 1, 10),
        ("green", 2, 10),
        ("green", 1, 12),
        ("blue", 1, 12),
        ("yellow", 1, 15),
        ("green", 2, 12),
    ]
    assert counts.get("green") == ValueAndTimestamp(2, 12)


def test_reduce_adds_and_subtracts() -> None:
    aggregator: Aggregator[str, frozenset[str], frozenset[str]] = Aggregator(
        initialize=frozenset,
        add=lambda _key, value, aggregate: aggregate | value,
        subtract=lambda _key, value, aggregate: aggregate - value,
    )
    table = TableAggregation(aggregator, DictTable())
    table.on_change("A", Change(frozenset("a")), 10)
    table.on_change("A", Change(frozenset("b"), frozenset("a")), 15)
    assert table.get("A") == ValueAndTimestamp(frozenset("b"), 15)
    table.on_change("A", Change(None, frozenset("b")), 12)
    assert table.get("A") == ValueAndTimestamp(frozenset(), 15)


def test_an_aggregate_of_none_deletes_the_group() -> None:
    source = source_table(DictTable())
    table = grouped(
        source,
        lambda _key, value: ("all", value),
        Aggregator(
            initialize=str,
            add=lambda _key, value, aggregate: aggregate + value,
            subtract=lambda _key, value, aggregate: aggregate.replace(value, "") or None,
        ),
        DictTable(),
    )
    table.enable_sending_old_values()
    observed = Observed(table)
    source.upsert("A", "x", 1)
    source.upsert("A", None, 2)
    source.upsert("B", "y", 1)
    assert observed.changes() == [("all", "x", None), ("all", None, "x"), ("all", "y", None)]


def test_reduced_groups_take_values_in_and_out() -> None:
    source = source_table(DictTable())
    subtracting = reduction(lambda one, two: one + two, lambda one, two: one - two)
    table = grouped(source, lambda key, value: (key[0], value), subtracting, DictTable())
    for key, value in [("a1", 5), ("a2", 7), ("a1", 6), ("a2", None)]:
        source.upsert(key, value, 0)
    assert table.get("a") == ValueAndTimestamp(6, 0)


def test_grouping_needs_old_values_and_a_way_to_undo() -> None:
    with pytest.raises(ConfigurationError, match="no store"):
        grouped(source_table(), lambda key, value: (key, value), TRACE, DictTable())
    with pytest.raises(InvalidArgumentError, match="subtract"):
        TableAggregation(Aggregator(initialize=str, add=lambda _key, value, aggregate: aggregate + value), DictTable())


def test_a_group_must_have_a_key() -> None:
    table = TableAggregation(TRACE, DictTable())
    with pytest.raises(NullKeyError):
        table.on_change(None, Change("x"), 0)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from("ABCD"), st.one_of(st.none(), st.sampled_from("xyz"))), max_size=40))
def test_group_counts_equal_a_recount_of_the_table(log: list[tuple[str, str | None]]) -> None:
    source = source_table(DictTable())
    store: DictTable[str, int] = DictTable()
    grouped(source, lambda key, value: (value, key), count(), store)
    newest: dict[str, str | None] = {}
    for timestamp_ms, (key, value) in enumerate(log):
        source.upsert(key, value, timestamp_ms)
        newest[key] = value
    recount = Counter(value for value in newest.values() if value is not None)
    assert {group: row.value for group, row in store.rows.items() if row.value} == dict(recount)
