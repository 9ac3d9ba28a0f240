from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import BufferFullError, ConfigurationError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.operators.source import SourceTable
from storekeeper.topology.operators.suppress import (
    UNBOUNDED,
    BufferConfig,
    BufferFullStrategy,
    Suppressed,
    SuppressedTable,
    TimeOrderedBuffer,
    until_limit,
    until_window_closes,
)
from storekeeper.topology.times import StreamTime
from storekeeper.topology.windows import SessionWindows, TimeWindows, WindowedSerde

from .built import source_table, suppressed_table
from .dict_stores import DictTable
from .observed import Observed

HOURS = 3_600_000


def number_bytes(value: int) -> bytes:
    return value.to_bytes(8, "big")


def limited(limit_ms: int, buffer: BufferConfig = UNBOUNDED) -> Suppressed[Any]:
    return until_limit(timedelta(milliseconds=limit_ms), buffer)


class Counts(NamedTuple):
    """A table, and what is held back of it."""

    source: SourceTable[str, int]
    table: SuppressedTable[str, int]
    observed: Observed
    buffer: TimeOrderedBuffer[str, int]


def suppressed_counts(suppressed: Suppressed[str], stream_time: StreamTime | None = None) -> Counts:
    source = source_table(DictTable())
    table, buffer = suppressed_table(
        source, suppressed, key_bytes=str.encode, value_bytes=number_bytes, stream_time=stream_time
    )
    return Counts(source, table, Observed(table), buffer)


def suppressed_windows(suppressed: Suppressed[Windowed[Any]]) -> tuple[SourceTable[Windowed[str], int], Observed]:
    source = source_table()
    key_bytes = WindowedSerde(Utf8Serde()).serialize
    table, _ = suppressed_table(source, suppressed, key_bytes=key_bytes, value_bytes=number_bytes)
    return source, Observed(table)


def test_a_limit_of_zero_lets_every_change_through_at_once() -> None:
    source, _, observed, _ = suppressed_counts(limited(0))
    changes = [("v1", 1, 0), ("v1", 0, 1), ("v2", 1, 1), ("v1", None, 2)]
    for key, value, timestamp in changes:
        source.upsert(key, value, timestamp)
    assert observed.rows() == changes


def test_a_busy_key_goes_out_as_punctually_as_a_quiet_one() -> None:
    source, _, observed, _ = suppressed_counts(limited(2))
    source.upsert("v1", 1, 0)
    source.upsert("v1", 0, 1)
    source.upsert("v2", 1, 1)
    source.upsert("v1", 1, 2)
    assert observed.rows() == [("v1", 1, 2)]
    source.upsert("tick", 1, 3)
    assert observed.rows() == [("v2", 1, 1)]
    source.upsert("tick", 0, 4)
    assert observed.rows() == []


def test_an_older_change_does_not_turn_stream_time_back() -> None:
    source, _, observed, _ = suppressed_counts(limited(5))
    source.upsert("A", 1, 10)
    source.upsert("B", 1, 3)
    assert observed.rows() == [("B", 1, 3)]


def test_changes_due_together_go_out_in_the_order_of_their_keys() -> None:
    source, _, observed, _ = suppressed_counts(limited(10))
    source.upsert("B", 1, 0)
    source.upsert("A", 1, 0)
    source.upsert("tick", 1, 10)
    assert [key for key, _, _ in observed.rows()] == ["A", "B"]


def test_the_old_value_is_the_one_that_downstream_saw_last() -> None:
    source, table, observed, _ = suppressed_counts(limited(10))
    assert table.enable_sending_old_values()
    source.upsert("A", 1, 0)
    source.upsert("tick", 1, 10)
    source.upsert("A", 2, 11)
    source.upsert("A", 3, 12)
    observed.rows()
    assert table.get("A") == ValueAndTimestamp(1, 12)
    source.upsert("tick", 2, 21)
    assert ("A", 3, 1) in observed.changes()
    assert table.get("A") == ValueAndTimestamp(3, 12)


def test_final_results_wait_for_the_end_of_grace() -> None:
    source, observed = suppressed_windows(until_window_closes(TimeWindows.tumbling(1, grace_ms=1)))
    source.upsert(Windowed("hey", 99, 100), 7, 99)
    source.upsert(Windowed("d1", 100, 101), 7, 100)
    assert observed.windows() == []
    source.upsert(Windowed("d2", 101, 102), 7, 101)
    assert observed.windows() == [("hey", 99, 100, 7, 99)]


def test_final_results_without_grace_wait_for_the_end_of_the_window() -> None:
    source, observed = suppressed_windows(until_window_closes(TimeWindows.tumbling(100)))
    source.upsert(Windowed("hey", 0, 100), 7, 5)
    assert observed.windows() == []
    source.upsert(Windowed("other", 100, 200), 7, 100)
    assert observed.windows() == [("hey", 0, 100, 7, 5)]


def test_a_session_is_final_once_its_gap_and_grace_are_over_as_in_kafka_streams() -> None:
    source, observed = suppressed_windows(until_window_closes(SessionWindows(5, 2)))
    source.upsert(Windowed("a", 0, 0), 1, 0)
    source.upsert(Windowed("b", 6, 6), 1, 6)
    assert observed.windows() == []
    source.upsert(Windowed("b", 7, 7), 1, 7)
    assert observed.windows() == [("a", 0, 0, 1, 0)]


@pytest.mark.parametrize("end_ms", [100, 0])
def test_final_results_have_no_tombstones_and_other_results_have(end_ms: int) -> None:
    final, final_observed = suppressed_windows(until_window_closes(TimeWindows.tumbling(100)))
    final.upsert(Windowed("hey", 0, end_ms), None, 100)
    assert final_observed.windows() == []
    early, early_observed = suppressed_windows(limited(0, BufferConfig(max_records=0)))
    early.upsert(Windowed("hey", 0, end_ms), None, 100)
    assert early_observed.windows() == [("hey", 0, end_ms, None, 100)]


def test_too_many_records_make_the_first_ones_go_out_early() -> None:
    source, _, observed, buffer = suppressed_counts(limited(100 * HOURS, BufferConfig(max_records=1)))
    source.upsert("v1", 1, 0)
    source.upsert("v1", 0, 1)
    source.upsert("v2", 1, 1)
    source.upsert("v1", 1, 2)
    assert observed.rows() == [("v1", 0, 1), ("v2", 1, 1)]
    source.upsert("x", 1, 3)
    assert observed.rows() == [("v1", 1, 2)]
    assert len(buffer) == 1


def test_too_many_bytes_make_the_first_ones_go_out_early() -> None:
    source, _, observed, buffer = suppressed_counts(limited(100 * HOURS, BufferConfig(max_bytes=60)))
    source.upsert("hey", None, 100)
    assert observed.rows() == []
    source.upsert("dummyKey", None, 101)
    assert observed.rows() == [("hey", None, 100)]
    assert 0 < buffer.size_bytes <= 60


@pytest.mark.parametrize("limit", [{"max_records": 1}, {"max_bytes": 60}])
def test_a_buffer_that_must_not_emit_early_stops_when_it_is_full(limit: dict[str, int]) -> None:
    config = BufferConfig(limit.get("max_records"), limit.get("max_bytes"), BufferFullStrategy.SHUT_DOWN)
    source, _, observed, _ = suppressed_counts(limited(100 * HOURS, config))
    source.upsert("hey", None, 100)
    with pytest.raises(BufferFullError, match="raise the limit"):
        source.upsert("dummyKey", None, 100)
    assert observed.rows() == []


def test_final_results_may_not_be_emitted_early() -> None:
    with pytest.raises(ConfigurationError, match="early"):
        until_window_closes(TimeWindows.tumbling(1), BufferConfig(max_records=5))
    until_window_closes(TimeWindows.tumbling(1), BufferConfig(5, when_full=BufferFullStrategy.SHUT_DOWN))


@pytest.mark.parametrize("limit", [{"max_records": -1}, {"max_bytes": -1}])
def test_negative_limits_are_refused(limit: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        BufferConfig(limit.get("max_records"), limit.get("max_bytes"))
    with pytest.raises(ConfigurationError):
        limited(-1)


def test_a_restored_buffer_continues_where_the_first_one_stopped() -> None:
    source, _, _, buffer = suppressed_counts(limited(10))
    source.upsert("A", 1, 0)
    source.upsert("B", 1, 5)
    restored = suppressed_counts(limited(10), StreamTime(5))
    for waiting in buffer.take_touched().values():
        assert waiting is not None
        restored.buffer.put(waiting.due_ms, waiting.key, waiting.change, waiting.timestamp_ms)
    assert restored.buffer.size_bytes == buffer.size_bytes
    restored.source.upsert("late", 1, 4)
    assert restored.observed.rows() == []
    restored.source.upsert("tick", 1, 10)
    assert restored.observed.rows() == [("A", 1, 0)]


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 30))),
    st.integers(0, 10),
)
def test_after_the_limit_everybody_knows_the_newest_value(log: list[tuple[str, int | None, int]], limit: int) -> None:
    source, _, observed, buffer = suppressed_counts(limited(limit))
    newest: dict[str, int | None] = {}
    for key, value, timestamp in log:
        source.upsert(key, value, timestamp)
        newest[key] = value
    source.upsert("tick", 0, 100)
    seen = {key: value for key, value, _ in observed.rows() if key != "tick"}
    assert seen == newest
    assert len(buffer) == (1 if limit else 0)


@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 9), st.integers(0, 9))),
    st.integers(0, 3),
)
def test_sizes_and_counts_never_drift(log: list[tuple[str, int, int]], max_records: int) -> None:
    source, _, _, buffer = suppressed_counts(limited(100, BufferConfig(max_records=max_records)))
    waiting: dict[bytes, Any] = {}
    for key, value, timestamp in log:
        source.upsert(key, value, timestamp)
        waiting |= buffer.take_touched()
        waiting = {key: seen for key, seen in waiting.items() if seen is not None}
        assert len(buffer) == len(waiting) <= max_records
        assert buffer.size_bytes == sum(
            28 + len(seen.key) + 8 + (8 if seen.change.old is not None else 0) for seen in waiting.values()
        )
