from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError, InvalidTimestampError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.windowed import Windowed
from storekeeper.topology import StreamsBuilder
from storekeeper.topology.aggregator import Aggregator, count
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.operators.suppress import until_window_closes
from storekeeper.topology.operators.windowed_aggregation import WindowedAggregation
from storekeeper.topology.times import StreamTime
from storekeeper.topology.windows import EmitStrategy, TimeWindows, UnlimitedWindows, WindowedSerde
from tests.conformance.aggregators import total

from .built import over, suppressed_table
from .dict_stores import DictWindows
from .observed import Observed

CLOSE = EmitStrategy.ON_WINDOW_CLOSE
HOPPING = TimeWindows.hopping(10, advance_ms=5, grace_ms=5)
Records = list[tuple[str, int]]
records = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 60)), max_size=40)


def joined(start: str = "0") -> Aggregator[str, str, str]:
    return Aggregator(initialize=lambda: start, add=lambda _key, value, aggregate: f"{aggregate}+{value}")


def aggregation(
    windows: TimeWindows | UnlimitedWindows, emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
) -> tuple[Any, Observed]:
    table = over(WindowedAggregation, windows, joined(), DictWindows(), emit=emit)
    return table, Observed(table)


def counted(windows: TimeWindows, log: Records) -> dict[tuple[str, int], int]:
    store: DictWindows[int] = DictWindows()
    table = over(WindowedAggregation, windows, count(), store)
    for key, timestamp_ms in log:
        table.process(key, "x", timestamp_ms)
    return {window: row.value for window, row in store.rows.items()}


def test_a_late_record_does_not_lower_the_rows_timestamp() -> None:
    table, observed = aggregation(TimeWindows.tumbling(10, grace_ms=100))
    table.process("B", "2", 8)
    table.process("B", "1", 3)
    assert observed.windows() == [("B", 0, 10, "0+2", 8), ("B", 0, 10, "0+2+1", 8)]
    assert table.get(Windowed("B", 0, 10)) == ValueAndTimestamp("0+2+1", 8)
    assert table.get(Windowed("B", 10, 20)) is None


def test_a_record_can_be_late_for_one_window_and_in_time_for_the_next() -> None:
    table, observed = aggregation(HOPPING)
    table.process("A", "1", 15)
    observed.windows()
    table.process("A", "2", 9)
    assert observed.windows() == [("A", 5, 15, "0+2", 9)]
    assert table.dropped.total == table.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 1


def test_a_window_closes_when_stream_time_reaches_its_end_plus_grace() -> None:
    table, _ = aggregation(TimeWindows.tumbling(10, grace_ms=5))
    table.process("other", "1", 14)
    table.process("A", "1", 0)
    assert table.dropped.total == 0
    table.process("other", "1", 15)
    table.process("A", "1", 0)
    assert table.dropped.total == 1


def test_null_keys_and_values_are_counted_and_do_not_move_stream_time() -> None:
    table, observed = aggregation(HOPPING)
    table.process(None, "1", 100)
    table.process("A", None, 100)
    assert observed.windows() == []
    assert table.dropped.by_reason == {
        DropReason.NULL_KEY: 1,
        DropReason.NULL_VALUE: 1,
        DropReason.EXPIRED_WINDOW: 0,
    }
    assert table.stream_time.now_ms < 0


def test_a_negative_timestamp_is_refused() -> None:
    table, observed = aggregation(HOPPING)
    with pytest.raises(InvalidTimestampError):
        table.process("A", "1", -1)
    assert observed.windows() == []


def test_old_values_are_sent_once_asked_for() -> None:
    table, observed = aggregation(TimeWindows.tumbling(10))
    table.process("A", "1", 0)
    table.process("A", "1", 0)
    assert [(new, old) for _, new, old in observed.changes()] == [("0+1", None), ("0+1+1", None)]
    assert table.enable_sending_old_values()
    table.process("A", "2", 1)
    table.process("A", "3", 10)
    assert [(new, old) for _, new, old in observed.changes()] == [("0+1+1+2", "0+1+1"), ("0+3", None)]


def test_emission_on_close_tells_each_window_once_in_the_order_of_time() -> None:
    table, observed = aggregation(HOPPING, CLOSE)
    for key, value, timestamp in [("B", "2", 0), ("A", "1", 5), ("C", "3", 15), ("B", "4", 12), ("D", "5", 20)]:
        table.process(key, value, timestamp)
    assert observed.windows() == [
        ("A", 0, 10, "0+1", 5),
        ("B", 0, 10, "0+2", 0),
        ("A", 5, 15, "0+1", 5),
        ("B", 5, 15, "0+4", 12),
    ]


def test_nothing_is_emitted_before_stream_time_has_come_far_enough() -> None:
    table, observed = aggregation(HOPPING, CLOSE)
    for key, value, timestamp in [("A", "1", 0), ("B", "2", 5), ("C", "3", 15)]:
        table.process(key, value, timestamp)
    assert observed.windows() == [("A", 0, 10, "0+1", 0), ("B", 0, 10, "0+2", 5)]
    table.process("D", "4", 15)
    table.process("E", "5", 19)
    assert observed.windows() == []


def test_a_restarted_table_emits_only_what_the_first_one_had_not() -> None:
    store: DictWindows[str] = DictWindows()
    first = over(WindowedAggregation, HOPPING, joined(), store, emit=CLOSE)
    for key, value, timestamp in [("A", "1", 0), ("B", "2", 5), ("C", "3", 15)]:
        first.process(key, value, timestamp)
    second = over(
        WindowedAggregation,
        HOPPING,
        joined(),
        store,
        emit=CLOSE,
        stream_time=StreamTime(first.stream_time.now_ms),
        emitted_until_ms=first.emitted_until_ms,
    )
    observed = Observed(second)
    second.process("late", "0", 4)
    assert second.dropped.total == 1
    second.process("D", "4", 25)
    assert observed.windows() == [("B", 5, 15, "0+2", 5), ("C", 10, 20, "0+3", 15)]


def test_an_unlimited_window_takes_everything_and_never_closes() -> None:
    table, observed = aggregation(UnlimitedWindows(10))
    for timestamp in (9, 1_000, 10):
        table.process("A", str(timestamp), timestamp)
    assert [row[3] for row in observed.windows()] == ["0+1000", "0+1000+10"]
    assert table.dropped.total == 0
    stream = StreamsBuilder("app").stream("in", str).group_by_key()
    with pytest.raises(ConfigurationError, match="never closes"):
        stream.windowed_by(UnlimitedWindows(), emit=CLOSE).count()


@given(records)
def test_counts_equal_a_recount_of_all_in_time_records(log: Records) -> None:
    windows = TimeWindows.hopping(7, advance_ms=3, grace_ms=60)
    recount = Counter((key, start_ms) for key, time in log for start_ms in windows.starts_for(time))
    assert counted(windows, log) == dict(recount)


@given(records, st.integers(0, 20))
def test_each_record_counts_or_is_dropped_once_for_each_of_its_windows(log: Records, grace: int) -> None:
    windows = TimeWindows.hopping(7, advance_ms=3, grace_ms=grace)
    table = over(WindowedAggregation, windows, count(), DictWindows())
    accepted: dict[tuple[str, int], list[int]] = {}
    dropped = newest = 0
    for key, time in log:
        table.process(key, "x", time)
        newest = max(newest, time)
        for start in range(time // 3 * 3, max(-1, time - 7), -3):
            if start + 7 + grace > newest:
                accepted.setdefault((key, start), []).append(time)
            else:
                dropped += 1
    assert table.dropped.total == dropped
    for (key, start), times in accepted.items():
        assert table.get(Windowed(key, start, start + 7)) == ValueAndTimestamp(len(times), max(times))


@given(records, st.randoms(use_true_random=False))
def test_the_order_of_in_time_records_does_not_matter(log: Records, random: object) -> None:
    shuffled = log.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    windows = TimeWindows.hopping(10, advance_ms=4, grace_ms=60)
    assert counted(windows, log) == counted(windows, shuffled)


@given(records, st.integers(0, 10))
def test_emission_on_close_and_suppression_agree_and_are_final(log: Records, grace: int) -> None:
    windows = TimeWindows.hopping(6, advance_ms=3, grace_ms=grace)
    closing = over(WindowedAggregation, windows, total(), DictWindows(), emit=CLOSE)
    closed = Observed(closing)
    updating = over(WindowedAggregation, windows, total(), DictWindows())
    suppressing, _ = suppressed_table(
        updating,
        until_window_closes(windows),
        key_bytes=WindowedSerde(Utf8Serde()).serialize,
        value_bytes=lambda value: str(value).encode(),
    )
    suppressed = Observed(suppressing)
    for key, time in [*log, ("tick", 10_000)]:
        closing.process(key, time, time)
        updating.process(key, time, time)
    results = closed.windows()
    assert sorted(results) == sorted(suppressed.windows())
    assert len({row[:3] for row in results}) == len(results)
    for key, start, end, value, _ in results:
        row = closing.get(Windowed(key, start, end))
        assert row is not None
        assert row.value == value
