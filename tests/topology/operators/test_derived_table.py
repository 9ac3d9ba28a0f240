from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.operators.derived_table import FilteredTable, MappedTable
from storekeeper.topology.operators.source import SourceTable
from storekeeper.topology.records import Change
from storekeeper.topology.table import Table

from .built import source_table
from .dict_stores import DictTable
from .observed import Observed


def even(_key: str, value: int) -> bool:
    return value % 2 == 0


def odd(_key: str, value: int) -> bool:
    return value % 2 == 1


def test_a_table_follows_the_order_of_its_log_not_of_timestamps() -> None:
    store: DictTable[str, str] = DictTable()
    table = source_table(store)
    observed = Observed(table)
    table.upsert("B", "01", 20)
    table.upsert("B", "02", 5)
    assert table.get("B") == ValueAndTimestamp("02", 5)
    table.upsert("B", None, 3)
    assert table.get("B") is None
    assert observed.rows() == [("B", "01", 20), ("B", "02", 5), ("B", None, 3)]


def test_tombstones_go_on_even_for_rows_that_never_were() -> None:
    table: SourceTable[str, int] = source_table()
    observed = Observed(table)
    table.upsert("A", None, 1)
    assert observed.rows() == [("A", None, 1)]


def test_null_keys_are_counted_and_left_out() -> None:
    table: SourceTable[str, int] = source_table()
    observed = Observed(table)
    table.upsert(None, 1, 1)
    assert observed.rows() == []
    assert table.dropped.total == 1
    assert table.dropped.by_reason[DropReason.NULL_KEY] == 1


def test_old_values_are_sent_once_asked_for() -> None:
    table: SourceTable[str, str] = source_table(DictTable())
    observed = Observed(table)
    table.upsert("A", "01", 10)
    table.upsert("A", "02", 8)
    assert observed.changes() == [("A", "01", None), ("A", "02", None)]
    assert table.enable_sending_old_values() is True
    table.upsert("A", "03", 12)
    table.upsert("A", None, 15)
    table.upsert("A", "04", 16)
    assert observed.changes() == [("A", "03", "02"), ("A", None, "03"), ("A", "04", None)]


def test_old_values_need_a_store() -> None:
    table: SourceTable[str, str] = source_table()
    mapped = MappedTable(table, lambda _key, value: value.upper(), None)
    assert mapped.enable_sending_old_values() is False
    with pytest.raises(ConfigurationError, match="no store"):
        mapped.enable_sending_old_values(force=True)
    with pytest.raises(ConfigurationError, match="no store"):
        mapped.get("A")


def test_a_filter_without_old_values_tombstones_whatever_does_not_match() -> None:
    source: SourceTable[str, int] = source_table()
    evens, odds = Observed(FilteredTable(source, even, None)), Observed(FilteredTable(source, odd, None))
    for key, value, timestamp in [("A", 1, 10), ("B", 2, 5), ("A", None, 18)]:
        source.upsert(key, value, timestamp)
    assert evens.rows() == [("A", None, 10), ("B", 2, 5), ("A", None, 18)]
    assert odds.rows() == [("A", 1, 10), ("B", None, 5), ("A", None, 18)]


def materialized_above() -> tuple[SourceTable[str, int], Table[str, int]]:
    source: SourceTable[str, int] = source_table(DictTable())
    return source, FilteredTable(source, even, None)


def materialized_itself() -> tuple[SourceTable[str, int], Table[str, int]]:
    source: SourceTable[str, int] = source_table()
    table = FilteredTable(source, even, DictTable())
    table.enable_sending_old_values()
    return source, table


@pytest.mark.parametrize("build", [materialized_above, materialized_itself])
def test_a_filter_with_old_values_keeps_quiet_about_rows_that_never_matched(build: object) -> None:
    assert callable(build)
    source, table = build()
    observed = Observed(table)
    for key in "ABC":
        source.upsert(key, 1, 5)
    assert observed.changes() == []
    source.upsert("A", 2, 15)
    source.upsert("B", 2, 8)
    assert observed.changes() == [("A", 2, None), ("B", 2, None)]
    source.upsert("A", 3, 20)
    assert observed.changes() == [("A", None, 2)]
    source.upsert("A", None, 10)
    source.upsert("B", None, 20)
    assert observed.changes() == [("B", None, 2)]


@pytest.mark.parametrize("own_store", [True, False])
def test_filtered_and_mapped_tables_answer_for_their_rows(own_store: bool) -> None:
    source: SourceTable[str, int] = source_table(DictTable())
    evens = FilteredTable(source, even, DictTable() if own_store else None)
    halves = MappedTable(evens, lambda _key, value: value // 2, DictTable() if own_store else None)
    source.upsert("A", 4, 10)
    source.upsert("B", 3, 11)
    assert (evens.get("A"), halves.get("A")) == (ValueAndTimestamp(4, 10), ValueAndTimestamp(2, 10))
    assert (evens.get("B"), halves.get("B")) == (None, None)
    assert halves.get("nobody") is None
    source.upsert("A", 5, 12)
    assert (evens.get("A"), halves.get("A")) == (None, None)


@pytest.mark.parametrize("own_store", [True, False])
def test_mapped_tables_map_old_values_too(own_store: bool) -> None:
    source: SourceTable[str, str] = source_table(None if own_store else DictTable())
    table = MappedTable(source, lambda _key, value: int(value), DictTable() if own_store else None)
    table.enable_sending_old_values(force=True)
    observed = Observed(table)
    for value in ("01", "02", None, None):
        source.upsert("A", value, 5)
    assert observed.changes() == [("A", 1, None), ("A", 2, 1), ("A", None, 2), ("A", None, None)]


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.one_of(st.none(), st.integers(0, 5))), max_size=40))
def test_replaying_a_filters_changes_gives_the_filtered_table(log: list[tuple[str, int | None]]) -> None:
    source: SourceTable[str, int] = source_table(DictTable())
    table = FilteredTable(source, even, None)
    replayed: dict[str, int] = {}

    def replay(key: str, change: Change[int], _timestamp_ms: int) -> None:
        value = change.new
        if value is None:
            assert key in replayed, "a tombstone for a row that was never forwarded"
            del replayed[key]
        else:
            replayed[key] = value

    table.subscribe(replay)
    newest: dict[str, int | None] = {}
    for timestamp_ms, (key, value) in enumerate(log):
        source.upsert(key, value, timestamp_ms)
        newest[key] = value
    assert replayed == {key: value for key, value in newest.items() if value is not None and even(key, value)}
