from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidArgumentError, InvalidTimestampError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import Aggregator, count
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.operators.session_aggregation import SessionAggregation
from storekeeper.topology.operators.suppress import until_window_closes
from storekeeper.topology.times import StreamTime
from storekeeper.topology.windows import EmitStrategy, SessionWindows, WindowedSerde

from .built import over, suppressed_table
from .dict_stores import DictSessions
from .observed import Observed

CLOSE = EmitStrategy.ON_WINDOW_CLOSE
UPDATE = EmitStrategy.ON_WINDOW_UPDATE
Log = list[tuple[str, int]]
records = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 60)), max_size=40)


def counting(gap_ms: int, grace_ms: int = 0, emit: EmitStrategy = UPDATE) -> tuple[Any, DictSessions[int], Observed]:
    store: DictSessions[int] = DictSessions()
    table = over(SessionAggregation, SessionWindows(gap_ms, grace_ms), count(), store, emit=emit)
    return table, store, Observed(table)


def test_records_exactly_the_gap_apart_share_a_session() -> None:
    table, store, _ = counting(5, grace_ms=100)
    for timestamp_ms in (0, 5, 11):
        table.process("a", "x", timestamp_ms)
    assert store.rows == {("a", 0, 5): 2, ("a", 11, 11): 1}


def test_a_record_in_between_merges_both_neighbours() -> None:
    table, store, observed = counting(5, grace_ms=100)
    for timestamp_ms in (0, 6, 3):
        table.process("a", "x", timestamp_ms)
    assert store.rows == {("a", 0, 6): 3}
    assert observed.windows() == [
        ("a", 0, 0, 1, 0),
        ("a", 6, 6, 1, 6),
        ("a", 0, 0, None, 0),
        ("a", 6, 6, None, 6),
        ("a", 0, 6, 3, 6),
    ]


def test_a_record_of_the_same_instant_replaces_without_a_tombstone() -> None:
    table, _, observed = counting(5)
    table.enable_sending_old_values()
    table.process("a", "x", 0)
    table.process("a", "x", 0)
    assert observed.changes() == [
        (Windowed("a", 0, 0), 1, None),
        (Windowed("a", 0, 0), 2, 1),
    ]
    assert table.get(Windowed("a", 0, 0)) == ValueAndTimestamp(2, 0)
    assert table.get(Windowed("a", 0, 1)) is None


def test_tombstones_carry_the_old_value_where_old_values_are_sent() -> None:
    table, _, observed = counting(5)
    table.enable_sending_old_values()
    table.process("a", "x", 0)
    table.process("a", "x", 4)
    assert [(new, old) for _, new, old in observed.changes()] == [(1, None), (None, 1), (2, None)]


def test_a_record_inside_a_session_leaves_its_bounds() -> None:
    table, _, observed = counting(5)
    for timestamp_ms in (0, 5, 1):
        table.process("a", "x", timestamp_ms)
    assert observed.windows()[-2:] == [("a", 0, 5, None, 5), ("a", 0, 5, 3, 5)]


def test_lateness_is_judged_by_the_merged_session() -> None:
    table, store, _ = counting(10)
    table.process("a", "x", 0)
    table.process("a", "x", 20)
    table.process("other", "x", 30)
    # At stream time 30 the session [0, 0] and a lone record at 9 are closed, but 10 reaches [20, 20], which isn't.
    table.process("a", "x", 9)
    assert table.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 1
    table.process("a", "x", 10)
    assert table.dropped.total == 1
    assert store.rows == {("a", 0, 20): 3, ("other", 30, 30): 1}


@pytest.mark.parametrize("grace_ms", [0, 1, 7])
def test_a_session_takes_records_until_gap_and_grace_have_passed(grace_ms: int) -> None:
    table, _, _ = counting(10, grace_ms)
    table.process("dummy", "x", 0)
    table.process("dummy", "x", 10 + grace_ms)
    table.process("in time", "x", 0)
    assert table.dropped.total == 0
    table.process("dummy", "x", 11 + grace_ms)
    table.process("late", "x", 0)
    assert table.dropped.total == 1


def test_null_keys_and_values_are_counted() -> None:
    table, store, _ = counting(5)
    table.process(None, "x", 0)
    table.process("a", None, 0)
    assert store.rows == {}
    assert table.dropped.by_reason == {DropReason.NULL_KEY: 1, DropReason.NULL_VALUE: 1, DropReason.EXPIRED_WINDOW: 0}
    with pytest.raises(InvalidTimestampError):
        table.process("a", "x", -1)


def test_emission_on_close_tells_each_session_once_in_the_order_of_its_end() -> None:
    table, _, observed = counting(5, emit=CLOSE)
    for key, timestamp_ms in [("b", 0), ("a", 1), ("b", 4), ("a", 3), ("c", 9)]:
        table.process(key, "x", timestamp_ms)
    assert observed.windows() == [("a", 1, 3, 2, 3)]
    table.process("c", "x", 10)
    assert observed.windows() == [("b", 0, 4, 2, 4)]


def test_only_open_sessions_are_remembered_for_their_closing() -> None:
    table, store, _ = counting(5, emit=CLOSE)
    for timestamp_ms in (0, 2, 4, 3, 9):
        table.process("a", "x", timestamp_ms)
    assert len(table._closing) == len(store.rows) == 1


def test_a_restarted_table_emits_only_what_the_first_one_had_not() -> None:
    first, store, _ = counting(5, emit=CLOSE)
    for key, timestamp_ms in [("a", 0), ("b", 4), ("c", 8)]:
        first.process(key, "x", timestamp_ms)
    second = over(
        SessionAggregation,
        SessionWindows(5),
        count(),
        store,
        emit=CLOSE,
        stream_time=StreamTime(first.stream_time.now_ms),
        emitted_until_ms=first.emitted_until_ms,
    )
    observed = Observed(second)
    second.process("late", "x", 2)
    assert second.dropped.total == 1
    second.process("d", "x", 20)
    assert observed.windows() == [("b", 4, 4, 1, 4), ("c", 8, 8, 1, 8)]


def test_sessions_need_an_aggregator_that_merges() -> None:
    adding: Aggregator[str, int, int] = Aggregator(initialize=int, add=lambda _k, v, a: a + v)
    with pytest.raises(InvalidArgumentError, match="merge"):
        over(SessionAggregation, SessionWindows(5), adding, DictSessions())


def sessions_by_sorting(gap_ms: int, log: Log) -> dict[tuple[str, int, int], int]:
    """The sessions of a log, found by sorting each key's records and cutting where the gap is exceeded."""
    sessions: dict[tuple[str, int, int], int] = {}
    for key in {key for key, _ in log}:
        times = sorted(time for k, time in log if k == key)
        current = [times[0]]
        for time in times[1:]:
            if time - current[-1] > gap_ms:
                sessions[key, current[0], current[-1]] = len(current)
                current = []
            current.append(time)
        sessions[key, current[0], current[-1]] = len(current)
    return sessions


@given(records, st.integers(1, 10))
def test_sessions_equal_those_found_by_sorting(log: Log, gap_ms: int) -> None:
    table, store, _ = counting(gap_ms, grace_ms=60)
    for key, timestamp_ms in log:
        table.process(key, "x", timestamp_ms)
    assert store.rows == sessions_by_sorting(gap_ms, log)
    assert table.dropped.total == 0


@given(records, st.integers(1, 10), st.integers(0, 10))
def test_replaying_the_changes_gives_the_store(log: Log, gap_ms: int, grace_ms: int) -> None:
    table, store, observed = counting(gap_ms, grace_ms)
    replayed: dict[tuple[str, int, int], int] = {}
    for key, timestamp_ms in log:
        table.process(key, "x", timestamp_ms)
    for key, start, end, value, timestamp_ms in observed.windows():
        assert timestamp_ms == end
        if value is None:
            del replayed[key, start, end]
        else:
            replayed[key, start, end] = value
    assert replayed == store.rows
    assert sum(store.rows.values()) + table.dropped.total == len(log)


@given(records, st.integers(1, 10), st.integers(0, 10))
def test_emission_on_close_and_suppression_agree_and_only_a_late_bridge_reopens_a_session(
    log: Log, gap_ms: int, grace_ms: int
) -> None:
    # At the one instant when a session is final for suppression and a record can still change it, the two differ, as
    # they do in Kafka Streams: even times and an odd gap plus grace never meet it.
    log = [(key, 2 * timestamp_ms) for key, timestamp_ms in log]
    gap_ms, grace_ms = 2 * gap_ms, 2 * grace_ms + 1
    windows = SessionWindows(gap_ms, grace_ms)
    closing, store, closed = counting(gap_ms, grace_ms, CLOSE)
    updating, _, _ = counting(gap_ms, grace_ms)
    suppressing, _ = suppressed_table(
        updating,
        until_window_closes(windows),
        key_bytes=WindowedSerde(Utf8Serde()).serialize,
        value_bytes=lambda value: str(value).encode(),
    )
    suppressed = Observed(suppressing)
    for key, timestamp_ms in [*log, ("tick", 10_000)]:
        closing.process(key, "x", timestamp_ms)
        updating.process(key, "x", timestamp_ms)
    results = closed.windows()
    assert sorted(results) == sorted(suppressed.windows())
    emitted = {(key, start, end): value for key, start, end, value, _ in results}
    assert len(emitted) == len(results)
    final = {session: value for session, value in store.rows.items() if session[0] != "tick"}
    assert final.items() <= emitted.items()
    for key, start, end in emitted.keys() - final.keys():
        assert any(key == k and s <= start and end <= e for k, s, e in final)
    if log == sorted(log, key=lambda record: record[1]):
        assert emitted == final


def test_a_late_bridge_reopens_a_session_that_was_emitted() -> None:
    table, _, observed = counting(1, grace_ms=1, emit=CLOSE)
    for timestamp_ms in (0, 3, 1, 10):
        table.process("a", "x", timestamp_ms)
    assert observed.windows() == [("a", 0, 0, 1, 0), ("a", 0, 1, 2, 1), ("a", 3, 3, 1, 3)]
