"""Tables over the real stores: what caches, retention and restores make of their changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state.serdes.integers import Int64Serde
from state.serdes.serde import Utf8Serde
from state.serdes.timestamped import TimestampedSerde, ValueAndTimestamp
from state.stores.builder import StoreBuilder
from state.stores.caching import CacheBudget
from state.stores.key_value import KeyValueStore
from state.stores.session import SessionStore
from state.stores.window import WindowStore
from state.stores.windowed import Windowed
from state.tables.aggregator import count, total
from state.tables.emit_strategy import EmitStrategy
from state.tables.grouped_table import GroupedTable
from state.tables.session_aggregation import SessionAggregation
from state.tables.sliding_aggregation import SlidingWindowAggregation
from state.tables.table import SourceTable
from state.tables.windowed_aggregation import WindowedAggregation
from state.tables.windows import SessionWindows, SlidingWindows, TimeWindows

from .dict_stores import DictSessions, DictWindows
from .observed import Observed

GAP_MS = 300_000
CLOSE = EmitStrategy.ON_WINDOW_CLOSE
records = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 60)), max_size=40)


def builder(*, cached: bool = False, max_entries: int | None = None) -> StoreBuilder:
    plain = StoreBuilder("rows")
    return plain.with_caching(CacheBudget(max_entries=max_entries)) if cached else plain


def counts(builder: StoreBuilder) -> KeyValueStore[str, ValueAndTimestamp[int]]:
    return builder.timestamped_key_value(Utf8Serde(), Int64Serde())


def windows(builder: StoreBuilder, size_ms: int, retention_ms: int) -> WindowStore[str, ValueAndTimestamp[int]]:
    return builder.window(
        Utf8Serde(), TimestampedSerde(Int64Serde()), window_size_ms=size_ms, retention_ms=retention_ms
    )


def sessions(builder: StoreBuilder, retention_ms: int = 3 * GAP_MS) -> SessionStore[str, int]:
    return builder.session(Utf8Serde(), Int64Serde(), retention_ms=retention_ms)


def test_sessions_made_and_merged_between_two_flushes_are_never_forwarded() -> None:
    store = sessions(builder(cached=True))
    table = SessionAggregation(SessionWindows(GAP_MS), count(), store)
    observed = Observed(table)
    log = [("a", 0), ("d", 0), ("d", GAP_MS // 2), ("a", GAP_MS + 1), ("a", GAP_MS + 1 + GAP_MS // 2)]
    for key, timestamp_ms in log:
        table.process(key, "x", timestamp_ms)
    assert observed.windows() == []
    store.flush()
    assert sorted(observed.windows()) == [
        ("a", 0, 0, 1, 0),
        ("a", GAP_MS + 1, GAP_MS + 1 + GAP_MS // 2, 2, GAP_MS + 1 + GAP_MS // 2),
        ("d", 0, GAP_MS // 2, 2, GAP_MS // 2),
    ]
    table.process("d", "x", GAP_MS // 2 + 1)
    store.flush()
    assert observed.windows() == [
        ("d", 0, GAP_MS // 2, None, GAP_MS // 2),
        ("d", 0, GAP_MS // 2 + 1, 3, GAP_MS // 2 + 1),
    ]


def test_a_cached_windows_old_value_is_the_one_before_the_last_flush() -> None:
    store = windows(builder(cached=True), 10, 100)
    table = WindowedAggregation(TimeWindows.tumbling(10), total(), store)
    table.enable_sending_old_values()
    observed = Observed(table)
    for value in (1, 2, 3):
        table.process("A", value, value)
    store.flush()
    table.process("A", 4, 4)
    table.process("A", 5, 2)
    store.flush()
    store.flush()
    window = Windowed("A", 0, 10)
    assert observed.changes() == [(window, 6, None), (window, 15, 6)]
    assert table.get(window) == ValueAndTimestamp(15, 4)


def test_eviction_forwards_what_waited() -> None:
    store = counts(builder(cached=True, max_entries=1))
    source = SourceTable(store)
    observed = Observed(source)
    source.upsert("A", 1, 10)
    assert observed.rows() == []
    source.upsert("B", 2, 11)
    assert observed.rows() == [("A", 1, 10), ("B", 2, 11)]


def test_cached_tombstones_keep_their_own_timestamps_and_unseen_rows_none() -> None:
    store = counts(builder(cached=True))
    source = SourceTable(store)
    source.enable_sending_old_values()
    observed = Observed(source)
    source.upsert("A", 1, 10)
    store.flush()
    observed.rows()
    source.upsert("A", 2, 11)
    source.upsert("A", None, 12)
    source.upsert("never", 1, 13)
    source.upsert("never", None, 14)
    store.flush()
    assert observed.rows() == [("A", None, 12)]
    source.upsert("A", 3, 15)
    store.flush()
    assert observed.changes() == [("A", 3, None)]


def test_cached_tables_chain() -> None:
    store, groups = counts(builder(cached=True)), counts(builder(cached=True))
    source = SourceTable(store)
    observed = Observed(GroupedTable(source, lambda key, value: (key[0], value)).aggregate(total(), groups))
    for key, value in [("a1", 5), ("a2", 7), ("a1", 6)]:
        source.upsert(key, value, 1)
    store.flush()
    groups.flush()
    source.upsert("a2", None, 2)
    store.flush()
    groups.flush()
    assert observed.rows() == [("a", 13, 1), ("a", 6, 2)]


def test_emission_on_close_bypasses_the_cache() -> None:
    store = windows(builder(cached=True), 10, 100)
    table = WindowedAggregation(TimeWindows.tumbling(10), count(), store, emit=CLOSE)
    observed = Observed(table)
    table.process("A", "x", 0)
    table.process("A", "x", 10)
    assert observed.windows() == [("A", 0, 10, 1, 0)]
    store.flush()
    assert observed.windows() == []


def test_a_table_over_restored_windows_knows_how_far_stream_time_had_come() -> None:
    store = windows(builder(), 10, 100)
    first = WindowedAggregation(TimeWindows.tumbling(10), count(), store)
    first.process("A", "x", 57)
    second = WindowedAggregation(TimeWindows.tumbling(10), count(), store)
    assert second.stream_time.now_ms == 57
    second.process("A", "x", 49)
    assert second.dropped.total == 1


def test_a_table_over_restored_sessions_knows_how_far_stream_time_had_come() -> None:
    store = sessions(builder(), retention_ms=100)
    first = SessionAggregation(SessionWindows(5), count(), store)
    first.process("A", "x", 57)
    second = SessionAggregation(SessionWindows(5), count(), store)
    assert second.stream_time.now_ms == 57
    second.process("A", "x", 50)
    assert second.dropped.total == 1


@given(records, st.integers(0, 8), st.sampled_from(EmitStrategy))
def test_windows_over_stores_equal_windows_over_dictionaries(
    log: list[tuple[str, int]], grace_ms: int, emit: EmitStrategy
) -> None:
    definition = TimeWindows.hopping(6, advance_ms=4, grace_ms=grace_ms)
    one = WindowedAggregation(definition, count(), windows(builder(), 6, definition.min_retention_ms), emit=emit)
    other = WindowedAggregation(definition, count(), DictWindows[int](), emit=emit)
    observed, expected = Observed(one), Observed(other)
    for key, timestamp_ms in log:
        one.process(key, "x", timestamp_ms)
        other.process(key, "x", timestamp_ms)
    assert observed.windows() == expected.windows()


@given(records, st.integers(1, 8), st.integers(0, 8), st.sampled_from(EmitStrategy))
def test_sliding_windows_over_stores_equal_those_over_dictionaries(
    log: list[tuple[str, int]], reach_ms: int, grace_ms: int, emit: EmitStrategy
) -> None:
    definition = SlidingWindows(reach_ms, grace_ms)
    store = windows(builder(), reach_ms, definition.min_retention_ms)
    one = SlidingWindowAggregation(definition, count(), store, emit=emit)
    other = SlidingWindowAggregation(definition, count(), DictWindows(), emit=emit)
    observed, expected = Observed(one), Observed(other)
    for key, timestamp_ms in log:
        one.process(key, "x", timestamp_ms)
        other.process(key, "x", timestamp_ms)
    assert observed.windows() == expected.windows()


@given(records, st.integers(1, 8), st.integers(0, 8), st.sampled_from(EmitStrategy))
def test_sessions_over_stores_equal_those_over_dictionaries(
    log: list[tuple[str, int]], gap_ms: int, grace_ms: int, emit: EmitStrategy
) -> None:
    definition = SessionWindows(gap_ms, grace_ms)
    one = SessionAggregation(definition, count(), sessions(builder(), 100), emit=emit)
    other = SessionAggregation(definition, count(), DictSessions[int](), emit=emit)
    observed, expected = Observed(one), Observed(other)
    for key, timestamp_ms in log:
        one.process(key, "x", timestamp_ms)
        other.process(key, "x", timestamp_ms)
    assert observed.windows() == expected.windows()


@given(records, st.integers(1, 8), st.integers(0, 8))
def test_the_least_retention_keeps_sessions_until_they_are_emitted(
    log: list[tuple[str, int]], gap_ms: int, grace_ms: int
) -> None:
    definition = SessionWindows(gap_ms, grace_ms)
    one = SessionAggregation(definition, count(), sessions(builder(), definition.min_retention_ms), emit=CLOSE)
    other = SessionAggregation(definition, count(), DictSessions[int](), emit=CLOSE)
    observed, expected = Observed(one), Observed(other)
    for key, timestamp_ms in sorted(log, key=lambda record: record[1]):
        one.process(key, "x", timestamp_ms)
        other.process(key, "x", timestamp_ms)
    assert observed.windows() == expected.windows()


def test_a_great_leap_of_time_loses_no_final_result() -> None:
    definition = TimeWindows.tumbling(10)
    store = windows(builder(), 10, definition.min_retention_ms)
    table = WindowedAggregation(definition, count(), store, emit=CLOSE)
    observed = Observed(table)
    table.process("A", "x", 0)
    table.process("A", "x", 1_000_000_000)
    assert observed.windows() == [("A", 0, 10, 1, 0)]
