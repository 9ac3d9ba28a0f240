"""Tables whose changes are held back until the batch ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import count
from storekeeper.topology.operators.session_aggregation import SessionAggregation
from storekeeper.topology.operators.windowed_aggregation import WindowedAggregation
from storekeeper.topology.table import Table
from storekeeper.topology.windows import SessionWindows, TimeWindows
from tests.conformance.aggregators import total

from .built import grouped, over, source_table
from .dict_stores import DictSessions, DictTable, DictWindows
from .observed import Observed

GAP_MS = 300_000


def held_back(table: Table[Any, Any]) -> tuple[Observed, Callable[[], None]]:
    table.enable_sending_old_values()
    release = table.hold_back(RecordContext())
    return Observed(table), release


def test_sessions_made_and_merged_meanwhile_are_never_forwarded() -> None:
    table = over(SessionAggregation, SessionWindows(GAP_MS), count(), DictSessions())
    observed, release = held_back(table)
    log = [("a", 0), ("d", 0), ("d", GAP_MS // 2), ("a", GAP_MS + 1), ("a", GAP_MS + 1 + GAP_MS // 2)]
    for key, timestamp_ms in log:
        table.process(key, "x", timestamp_ms)
    assert observed.windows() == []
    release()
    assert sorted(observed.windows()) == [
        ("a", 0, 0, 1, 0),
        ("a", GAP_MS + 1, GAP_MS + 1 + GAP_MS // 2, 2, GAP_MS + 1 + GAP_MS // 2),
        ("d", 0, GAP_MS // 2, 2, GAP_MS // 2),
    ]
    table.process("d", "x", GAP_MS // 2 + 1)
    release()
    assert observed.windows() == [
        ("d", 0, GAP_MS // 2, None, GAP_MS // 2),
        ("d", 0, GAP_MS // 2 + 1, 3, GAP_MS // 2 + 1),
    ]


def test_a_windows_old_value_is_the_one_before_the_last_release() -> None:
    table = over(WindowedAggregation, TimeWindows.tumbling(10), total(), DictWindows())
    observed, release = held_back(table)
    for value in (1, 2, 3):
        table.process("A", value, value)
    release()
    table.process("A", 4, 4)
    table.process("A", 5, 2)
    release()
    release()
    window = Windowed("A", 0, 10)
    assert observed.changes() == [(window, 6, None), (window, 15, 6)]
    assert table.get(window) == ValueAndTimestamp(15, 4)


def test_tombstones_keep_their_own_timestamps_and_unseen_rows_give_none() -> None:
    source = source_table(DictTable())
    observed, release = held_back(source)
    source.upsert("A", 1, 10)
    release()
    observed.rows()
    source.upsert("A", 2, 11)
    source.upsert("A", None, 12)
    source.upsert("never", 1, 13)
    source.upsert("never", None, 14)
    release()
    assert observed.rows() == [("A", None, 12)]
    source.upsert("A", 3, 15)
    release()
    assert observed.changes() == [("A", 3, None)]


def test_tables_chain() -> None:
    source = source_table(DictTable())
    _, release = held_back(source)
    groups = grouped(source, lambda key, value: (key[0], value), total(), DictTable())
    observed, release_groups = held_back(groups)
    for key, value in [("a1", 5), ("a2", 7), ("a1", 6)]:
        source.upsert(key, value, 1)
    release()
    release_groups()
    source.upsert("a2", None, 2)
    release()
    release_groups()
    assert observed.rows() == [("a", 13, 1), ("a", 6, 2)]
