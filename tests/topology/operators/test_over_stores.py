"""Tables over the real stores: what caches, retention and restores make of their changes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storekeeper.serdes.serde import Int64Serde
from storekeeper.topology.aggregator import count
from storekeeper.topology.operators.session_aggregation import SessionAggregation
from storekeeper.topology.operators.sliding_aggregation import SlidingWindowAggregation
from storekeeper.topology.operators.windowed_aggregation import WindowedAggregation
from storekeeper.topology.store import StoreKind
from storekeeper.topology.windows import EmitStrategy, SessionWindows, SlidingWindows, TimeWindows
from tests.stores.task_store import TaskStore, store_spec

from .built import over
from .dict_stores import DictSessions, DictWindows
from .observed import Observed

GAP_MS = 300_000
CLOSE = EmitStrategy.ON_WINDOW_CLOSE
records = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 60)), max_size=40)


def windows(size_ms: int, retention_ms: int) -> TaskStore:
    spec = store_spec(
        StoreKind.WINDOW, values=Int64Serde(), window_size_ms=size_ms, retention_ms=retention_ms, timestamped=True
    )
    return TaskStore(spec)


def sessions(retention_ms: int = 3 * GAP_MS) -> Any:
    return TaskStore(store_spec(StoreKind.SESSION, values=Int64Serde(), retention_ms=retention_ms)).cells()


def expect_equal(one: Any, other: Any, log: list[tuple[str, int]]) -> None:
    """Two tables show the same windows once they have processed the same records."""
    observed, expected = Observed(one), Observed(other)
    for key, timestamp_ms in log:
        one.process(key, "x", timestamp_ms)
        other.process(key, "x", timestamp_ms)
    assert observed.windows() == expected.windows()


@given(records, st.integers(0, 8), st.sampled_from(EmitStrategy))
def test_windows_over_stores_equal_windows_over_dictionaries(
    log: list[tuple[str, int]], grace_ms: int, emit: EmitStrategy
) -> None:
    definition = TimeWindows.hopping(6, advance_ms=4, grace_ms=grace_ms)
    one = over(WindowedAggregation, definition, count(), windows(6, definition.min_retention_ms).cells(), emit=emit)
    other = over(WindowedAggregation, definition, count(), DictWindows[int](), emit=emit)
    expect_equal(one, other, log)


@given(records, st.integers(1, 8), st.integers(0, 8), st.sampled_from(EmitStrategy))
def test_sliding_windows_over_stores_equal_those_over_dictionaries(
    log: list[tuple[str, int]], reach_ms: int, grace_ms: int, emit: EmitStrategy
) -> None:
    definition = SlidingWindows(reach_ms, grace_ms)
    store = windows(reach_ms, definition.min_retention_ms).store
    one = over(SlidingWindowAggregation, definition, count(), store, emit=emit)
    other = over(SlidingWindowAggregation, definition, count(), DictWindows(), emit=emit)
    expect_equal(one, other, log)


@given(records, st.integers(1, 8), st.integers(0, 8), st.sampled_from(EmitStrategy))
def test_sessions_over_stores_equal_those_over_dictionaries(
    log: list[tuple[str, int]], gap_ms: int, grace_ms: int, emit: EmitStrategy
) -> None:
    definition = SessionWindows(gap_ms, grace_ms)
    one = over(SessionAggregation, definition, count(), sessions(100), emit=emit)
    other = over(SessionAggregation, definition, count(), DictSessions[int](), emit=emit)
    expect_equal(one, other, log)


@given(records, st.integers(1, 8), st.integers(0, 8))
def test_the_least_retention_keeps_sessions_until_they_are_emitted(
    log: list[tuple[str, int]], gap_ms: int, grace_ms: int
) -> None:
    definition = SessionWindows(gap_ms, grace_ms)
    one = over(SessionAggregation, definition, count(), sessions(definition.min_retention_ms), emit=CLOSE)
    other = over(SessionAggregation, definition, count(), DictSessions[int](), emit=CLOSE)
    expect_equal(one, other, sorted(log, key=lambda record: record[1]))


def test_a_great_leap_of_time_loses_no_final_result() -> None:
    definition = TimeWindows.tumbling(10)
    store = windows(10, definition.min_retention_ms).cells()
    table = over(WindowedAggregation, definition, count(), store, emit=CLOSE)
    observed = Observed(table)
    table.process("A", "x", 0)
    table.process("A", "x", 1_000_000_000)
    assert observed.windows() == [("A", 0, 10, 1, 0)]
