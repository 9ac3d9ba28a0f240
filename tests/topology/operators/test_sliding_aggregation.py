from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.topology.aggregator import Aggregator, count
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.operators.sliding_aggregation import SlidingWindowAggregation
from storekeeper.topology.operators.suppress import until_window_closes
from storekeeper.topology.windows import EmitStrategy, SlidingWindows, WindowedSerde

from .built import over, suppressed_table
from .dict_stores import DictWindows
from .observed import Observed

CLOSE = EmitStrategy.ON_WINDOW_CLOSE
JOINED: Aggregator[str, str, str] = Aggregator(
    initialize=lambda: "0", add=lambda _key, value, aggregate: f"{aggregate}+{value}"
)
Input = list[tuple[str, int]]
Log = list[tuple[str, int]]
records = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 40)), max_size=30)


def emitted(
    windows: SlidingWindows, log: Input, emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE
) -> dict[int, set[tuple[str, int]]]:
    """All that was said of each window, by its start."""
    table = over(SlidingWindowAggregation, windows, JOINED, DictWindows(), emit=emit)
    observed = Observed(table)
    for value, timestamp_ms in log:
        table.process("A", value, timestamp_ms)
    said: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for _, start, end, value, timestamp_ms in observed.windows():
        assert end == start + windows.time_difference_ms
        said[start].add((value, timestamp_ms))
    return dict(said)


ORDERED: Input = [("1", 10), ("2", 10), ("3", 14), ("4", 15), ("5", 20), ("6", 22), ("7", 30)]
EARLY: Input = [("1", 0), ("2", 5), ("3", 6), ("4", 3), ("5", 13), ("6", 10), ("7", 70)]
REPEATED: Input = [("1", 0), ("2", 2), ("3", 4), ("4", 0), ("5", 2), ("6", 2), ("7", 0), ("8", 7)]


def test_a_window_ends_at_each_record_and_one_begins_after_each_that_has_successors() -> None:
    assert emitted(SlidingWindows(10, 5), ORDERED) == {
        0: {("0+1", 10), ("0+1+2", 10)},
        4: {("0+1+2+3", 14)},
        5: {("0+1+2+3+4", 15)},
        10: {("0+1+2+3+4+5", 20)},
        11: {("0+3", 14), ("0+3+4", 15), ("0+3+4+5", 20)},
        12: {("0+3+4+5+6", 22)},
        15: {("0+4", 15), ("0+4+5", 20), ("0+4+5+6", 22)},
        16: {("0+5", 20), ("0+5+6", 22)},
        20: {("0+5+6+7", 30)},
        21: {("0+6", 22), ("0+6+7", 30)},
        23: {("0+7", 30)},
    }


def test_emission_on_close_tells_each_window_once() -> None:
    assert emitted(SlidingWindows(10, 5), ORDERED, CLOSE) == {
        0: {("0+1+2", 10)},
        4: {("0+1+2+3", 14)},
        5: {("0+1+2+3+4", 15)},
        10: {("0+1+2+3+4+5", 20)},
        11: {("0+3+4+5", 20)},
        12: {("0+3+4+5+6", 22)},
    }


def test_records_before_the_first_whole_window_share_one_from_zero() -> None:
    assert emitted(SlidingWindows(50), EARLY) == {
        0: {
            ("0+1", 0),
            ("0+1+2", 5),
            ("0+1+2+3", 6),
            ("0+1+2+3+4", 6),
            ("0+1+2+3+4+5", 13),
            ("0+1+2+3+4+5+6", 13),
        },
        1: {("0+2", 5), ("0+2+3", 6), ("0+2+3+4", 6), ("0+2+3+4+5", 13), ("0+2+3+4+5+6", 13)},
        4: {("0+2+3", 6), ("0+2+3+5", 13), ("0+2+3+5+6", 13)},
        6: {("0+3", 6), ("0+3+5", 13), ("0+3+5+6", 13)},
        7: {("0+5", 13), ("0+5+6", 13)},
        11: {("0+5", 13)},
        20: {("0+7", 70)},
    }
    assert emitted(SlidingWindows(50), EARLY, CLOSE) == {
        0: {("0+1+2+3+4+5+6", 13)},
        1: {("0+2+3+4+5+6", 13)},
        4: {("0+2+3+5+6", 13)},
        6: {("0+3+5+6", 13)},
        7: {("0+5+6", 13)},
        11: {("0+5", 13)},
    }


def test_a_window_that_is_both_a_right_and_a_left_one_is_told_once() -> None:
    table = over(SlidingWindowAggregation, SlidingWindows(5), count(), DictWindows[int]())
    observed = Observed(table)
    table.process("A", "x", 8)
    table.process("A", "x", 10)
    observed.windows()
    table.process("A", "x", 16)
    assert observed.windows() == [("A", 11, 16, 1, 16)]


def test_repeated_early_records() -> None:
    assert emitted(SlidingWindows(5), REPEATED) == {
        0: {
            ("0+1", 0),
            ("0+1+2", 2),
            ("0+1+2+3", 4),
            ("0+1+2+3+4", 4),
            ("0+1+2+3+4+5", 4),
            ("0+1+2+3+4+5+6", 4),
            ("0+1+2+3+4+5+6+7", 4),
        },
        1: {("0+2", 2), ("0+2+3", 4), ("0+2+3+5", 4), ("0+2+3+5+6", 4)},
        2: {("0+2+3+5+6+8", 7)},
        3: {("0+3", 4), ("0+3+8", 7)},
        5: {("0+8", 7)},
    }


def test_final_results_of_late_records_within_grace() -> None:
    windows = SlidingWindows(5, 15)
    table = over(SlidingWindowAggregation, windows, count(), DictWindows())
    suppressed, _ = suppressed_table(
        table,
        until_window_closes(windows),
        key_bytes=WindowedSerde(Utf8Serde()).serialize,
        value_bytes=lambda value: str(value).encode(),
    )
    observed = Observed(suppressed)
    for timestamp_ms in (10, 11, 10, 13, 10, 24, 5, 7, 90):
        table.process("k1", "v1", timestamp_ms)
    assert observed.windows() == [
        ("k1", 5, 10, 5, 10),
        ("k1", 6, 11, 5, 11),
        ("k1", 8, 13, 5, 13),
        ("k1", 11, 16, 2, 13),
        ("k1", 12, 17, 1, 13),
        ("k1", 19, 24, 1, 24),
    ]


def test_records_too_late_for_their_own_window_are_dropped() -> None:
    table = over(SlidingWindowAggregation, SlidingWindows(10, 90), count(), DictWindows())
    observed = Observed(table)
    table.process("k", "x", 200)
    observed.windows()
    table.process("k", "x", 99)
    assert observed.windows() == []
    assert table.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 1
    table.process("k", "x", 100)
    # Its right window could still grow, its left window [90, 100] is closed.
    assert observed.windows() == []
    assert table.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 2
    table.process(None, "x", 200)
    table.process("k", None, 200)
    assert table.dropped.total == 4


def test_records_of_one_instant_only_share_windows_without_reach() -> None:
    assert emitted(SlidingWindows(0), [("1", 3), ("2", 3), ("3", 4)]) == {
        3: {("0+1", 3), ("0+1+2", 3)},
        4: {("0+3", 4)},
    }


def recounted(reach_ms: int, log: Log) -> dict[tuple[str, int], tuple[int, int]]:
    """Every window that must exist, from its definition: number of records and greatest timestamp."""
    expected = {}
    for key in {key for key, _ in log}:
        times = [time for k, time in log if k == key]
        lefts = {max(0, time - reach_ms) for time in times}
        rights = {time + 1 for time in times if any(time < other <= time + 1 + reach_ms for other in times)}
        for start in lefts | rights:
            inside = [time for time in times if start <= time <= start + reach_ms]
            expected[key, start] = (len(inside), max(inside))
    return expected


@given(records, st.integers(0, 12))
def test_windows_equal_a_recount_of_all_in_time_records(log: Log, reach_ms: int) -> None:
    store: DictWindows[int] = DictWindows()
    table = over(SlidingWindowAggregation, SlidingWindows(reach_ms, 60), count(), store)
    for key, timestamp_ms in log:
        table.process(key, "x", timestamp_ms)
    assert {window: (row.value, row.timestamp_ms) for window, row in store.rows.items()} == recounted(reach_ms, log)


@given(records, st.integers(0, 8), st.integers(0, 8))
def test_nothing_final_changes_later(log: Log, reach_ms: int, grace_ms: int) -> None:
    store: DictWindows[int] = DictWindows()
    table = over(SlidingWindowAggregation, SlidingWindows(reach_ms, grace_ms), count(), store, emit=CLOSE)
    observed = Observed(table)
    for key, timestamp_ms in [*log, ("tick", 10_000)]:
        table.process(key, "x", timestamp_ms)
    results = observed.windows()
    assert len({row[:2] for row in results}) == len(results)
    for key, start, _, value, timestamp_ms in results:
        assert store.rows[key, start] == ValueAndTimestamp(value, timestamp_ms)
    assert {(key, start) for key, start, *_ in results} == {window for window in store.rows if window[0] != "tick"}
