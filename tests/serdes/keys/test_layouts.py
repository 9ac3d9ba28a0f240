from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storekeeper.serdes.keys.escaping import after_key, ended, prefix_stop, restored
from storekeeper.serdes.keys.sessions import decode_session_row_key, session_bounds, session_end_ms, session_row_key
from storekeeper.serdes.keys.versions import decode_version_row_key, version_bounds, version_row_key
from storekeeper.serdes.keys.windows import (
    MAX_SEQUENCE,
    MAX_TIMESTAMP_MS,
    decode_window_row_key,
    key_bounds,
    window_bounds,
    window_row_key,
    window_start_ms,
)

# Few distinct bytes, so that keys are often prefixes of one another and meet the escape's own bytes.
KEYS = st.lists(st.sampled_from([0x00, 0x01, 0x61, 0x7F, 0x80, 0xFE, 0xFF]), max_size=5).map(bytes)
TIMES = st.integers(0, MAX_TIMESTAMP_MS) | st.sampled_from([0, 1, 255, 256, MAX_TIMESTAMP_MS])
SEQUENCES = st.integers(0, MAX_SEQUENCE)


def test_golden_bytes() -> None:
    assert ended(b"a\x00b").hex() == "6100ff6200"
    assert window_row_key(b"a", 258, 3).hex() == "6100" + "0000000000000102" + "00000003"
    assert window_row_key(b"\x00", MAX_TIMESTAMP_MS, MAX_SEQUENCE).hex() == "00ff00" + "7fffffffffffffff" + "ffffffff"
    assert session_row_key(b"a", 1, 2).hex() == "6100" + "0000000000000002" + "0000000000000001"
    assert version_row_key(b"a", 0).hex() == "6100" + "7fffffffffffffff"
    assert version_row_key(b"a", 1).hex() == "6100" + "7ffffffffffffffe"


@given(KEYS, TIMES, SEQUENCES)
def test_window_keys_round_trip(key: bytes, start_ms: int, sequence: int) -> None:
    row_key = window_row_key(key, start_ms, sequence)
    assert decode_window_row_key(row_key) == (key, start_ms, sequence)
    assert window_start_ms(row_key) == start_ms


@given(KEYS, TIMES, TIMES)
def test_session_keys_round_trip(key: bytes, start_ms: int, end_ms: int) -> None:
    row_key = session_row_key(key, start_ms, end_ms)
    assert decode_session_row_key(row_key) == (key, start_ms, end_ms)
    assert session_end_ms(row_key) == end_ms


@given(KEYS, TIMES)
def test_version_keys_round_trip(key: bytes, timestamp_ms: int) -> None:
    assert decode_version_row_key(version_row_key(key, timestamp_ms)) == (key, timestamp_ms)


@given(st.tuples(KEYS, TIMES, SEQUENCES), st.tuples(KEYS, TIMES, SEQUENCES))
def test_window_keys_sort_by_key_then_start_then_sequence(
    one: tuple[bytes, int, int], two: tuple[bytes, int, int]
) -> None:
    assert (window_row_key(*one) < window_row_key(*two)) == (one < two)


@given(st.tuples(KEYS, TIMES, TIMES), st.tuples(KEYS, TIMES, TIMES))
def test_session_keys_sort_by_key_then_end_then_start(one: tuple[bytes, int, int], two: tuple[bytes, int, int]) -> None:
    ordered = (one[0], one[2], one[1]) < (two[0], two[2], two[1])
    assert (session_row_key(*one) < session_row_key(*two)) == ordered


@given(st.tuples(KEYS, TIMES), st.tuples(KEYS, TIMES))
def test_version_keys_sort_by_key_then_newest_first(one: tuple[bytes, int], two: tuple[bytes, int]) -> None:
    assert (version_row_key(*one) < version_row_key(*two)) == ((one[0], -one[1]) < (two[0], -two[1]))


@given(KEYS, TIMES, TIMES, st.tuples(KEYS, TIMES, SEQUENCES))
def test_window_bounds_hold_exactly_the_asked_windows(
    key: bytes, from_ms: int, to_ms: int, window: tuple[bytes, int, int]
) -> None:
    other, start_ms, sequence = window
    start, stop = window_bounds(key, from_ms, to_ms)
    assert (start <= window_row_key(other, start_ms, sequence) < stop) == (
        other == key and from_ms <= start_ms <= to_ms
    )


@given(KEYS, TIMES, KEYS, TIMES, TIMES)
def test_session_bounds_hold_exactly_the_asked_sessions(
    key: bytes, earliest_end_ms: int, other: bytes, start_ms: int, end_ms: int
) -> None:
    start, stop = session_bounds(key, earliest_end_ms)
    assert (start <= session_row_key(other, start_ms, end_ms) < stop) == (other == key and end_ms >= earliest_end_ms)


@given(KEYS, TIMES, KEYS, TIMES)
def test_version_bounds_hold_exactly_the_asked_versions(
    key: bytes, newest_ms: int, other: bytes, timestamp_ms: int
) -> None:
    start, stop = version_bounds(key, newest_ms)
    assert (start <= version_row_key(other, timestamp_ms) < stop) == (other == key and timestamp_ms <= newest_ms)


@given(KEYS, KEYS, KEYS, TIMES)
def test_key_bounds_include_both_ends(key_from: bytes, key_to: bytes, other: bytes, start_ms: int) -> None:
    start, stop = key_bounds(key_from, key_to)
    assert start is not None
    assert stop is not None
    assert (start <= window_row_key(other, start_ms) < stop) == (key_from <= other <= key_to)


def test_open_key_bounds() -> None:
    assert key_bounds(None, None) == (None, None)
    assert key_bounds(None, b"a") == (None, b"a\x00\xff")


@given(KEYS, KEYS)
def test_prefix_stop_ends_right_behind_the_prefix(prefix: bytes, key: bytes) -> None:
    stop = prefix_stop(prefix)
    assert (prefix <= key and (stop is None or key < stop)) == key.startswith(prefix)


@given(KEYS)
def test_the_end_mark_comes_off(key: bytes) -> None:
    assert restored(ended(key) + b"12345678", 8) == key
    assert after_key(ended(key)) > ended(key) + b"\x7f" * 8
