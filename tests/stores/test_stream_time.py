"""Stream time: what moves it, what is too late for it, and which times it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidTimestampError, NullKeyError
from storekeeper.serdes.keys.windows import MAX_SEQUENCE, MAX_TIMESTAMP_MS
from storekeeper.stores.stream_time import (
    NOTHING_SEEN_MS,
    STREAM_TIME_KEY,
    StoreStreamTime,
    check_key_and_time,
    clamped,
)

TIMES = st.integers(0, MAX_TIMESTAMP_MS)


def test_it_begins_with_nothing_seen() -> None:
    time = StoreStreamTime(100, None)
    assert (time.observed_ms, time.oldest_live_ms, time.sequence) == (NOTHING_SEEN_MS, 0, 0)
    assert time.admits(0)


@given(st.lists(TIMES))
def test_it_is_the_latest_time_and_never_goes_back(times_ms: list[int]) -> None:
    time = StoreStreamTime(100, None)
    latest_ms = NOTHING_SEEN_MS
    for time_ms in times_ms:
        assert time.observe(time_ms) == (time_ms > latest_ms)
        latest_ms = max(latest_ms, time_ms)
        assert time.observed_ms == latest_ms


@given(TIMES, st.integers(1, MAX_TIMESTAMP_MS), TIMES)
def test_what_is_admitted_is_what_is_alive(now_ms: int, retention_ms: int, time_ms: int) -> None:
    time = StoreStreamTime(retention_ms, None)
    time.observe(now_ms)
    assert time.admits(time_ms) == (time_ms >= time.oldest_live_ms)


def test_what_comes_too_late_is_counted() -> None:
    time = StoreStreamTime(100, None)
    time.observe(1000)
    assert (time.oldest_live_ms, time.admits(901), time.admits(900)) == (901, True, False)
    assert time.dropped_total == 1


@given(TIMES, st.integers(0, MAX_SEQUENCE))
def test_it_outlives_a_reopen(now_ms: int, sequence: int) -> None:
    time = StoreStreamTime(100, None)
    time.observe(now_ms)
    time.sequence = sequence
    again = StoreStreamTime(100, time.encoded()[STREAM_TIME_KEY])
    assert (again.observed_ms, again.sequence) == (now_ms, sequence)


def test_golden_bytes() -> None:
    time = StoreStreamTime(100, bytes.fromhex("0000000000000102" + "00000003"))
    assert (time.observed_ms, time.sequence) == (258, 3)
    assert time.encoded() == {b"stream-time": bytes.fromhex("0000000000000102" + "00000003")}
    assert StoreStreamTime(100, None).encoded() == {b"stream-time": bytes.fromhex("ffffffffffffffff" + "00000000")}


def test_sequences_begin_at_one_and_start_again_at_zero() -> None:
    time = StoreStreamTime(100, None)
    assert [time.next_sequence(), time.next_sequence()] == [1, 2]
    time.sequence = MAX_SEQUENCE
    assert [time.next_sequence(), time.next_sequence()] == [0, 1]


@pytest.mark.parametrize("time_ms", [-1, 1 << 63, 1.5, "5", None])
def test_what_is_no_epoch_milliseconds_is_refused(time_ms: Any) -> None:
    with pytest.raises(InvalidTimestampError):
        check_key_and_time("a", 5, time_ms)


def test_the_first_and_the_last_time_are_accepted() -> None:
    check_key_and_time("", 0, MAX_TIMESTAMP_MS)


def test_none_is_no_key() -> None:
    with pytest.raises(NullKeyError):
        check_key_and_time(None)


def test_bounds_of_searches_are_moved_into_the_times_that_exist() -> None:
    assert [clamped(time_ms) for time_ms in (-5, 0, 7, 1 << 70)] == [0, 0, 7, MAX_TIMESTAMP_MS]
