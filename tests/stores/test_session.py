"""The session store: bounds of searches, lateness, and what a refused put leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import (
    InvalidTimestampError,
    InvalidWindowError,
    NullKeyError,
    SerializationError,
    StoreClosedError,
)
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.stores.session import SessionStore
from storekeeper.stores.stream_time import STREAM_TIME_KEY, StoreStreamTime
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.store import StoreKind
from tests.stores.task_store import TaskStore, store_spec

Sessions = SessionStore[str, str]
SPANS = [(0, 5), (3, 5), (10, 10), (8, 30)]


def opened(retention_ms: int = 100) -> Sessions:
    sessions: Sessions = TaskStore(store_spec(StoreKind.SESSION, retention_ms=retention_ms)).store
    return sessions


@pytest.fixture
def store() -> Sessions:
    sessions = opened()
    for start_ms, end_ms in SPANS:
        for key in ("a", "b"):
            sessions.put(key, start_ms, end_ms, key)
    return sessions


def spans(rows: Any) -> list[tuple[int, int]]:
    return [(session.start_ms, session.end_ms) for session, _ in rows]


@given(st.integers(-2, 35), st.integers(-2, 35))
def test_sessions_that_overlap_the_times_are_found_by_end_then_start(
    earliest_end_ms: int, latest_start_ms: int
) -> None:
    store = opened()
    for start_ms, end_ms in SPANS:
        store.put("a", start_ms, end_ms, "v")
    expected = [(start, end) for start, end in SPANS if end >= earliest_end_ms and start <= latest_start_ms]
    assert spans(store.find_sessions("a", earliest_end_ms, latest_start_ms)) == expected
    assert spans(store.backward_find_sessions("a", earliest_end_ms, latest_start_ms)) == expected[::-1]
    assert spans(store.find_sessions_range("a", "a", earliest_end_ms, latest_start_ms)) == expected
    assert spans(store.backward_find_sessions_range(None, None, earliest_end_ms, latest_start_ms)) == expected[::-1]


def test_both_ends_of_keys_are_included_and_none_leaves_one_open(store: Sessions) -> None:
    store.put("ab", 1, 2, "ab")
    assert {session.key for session, _ in store.fetch_range("a", "ab")} == {"a", "ab"}
    assert [session.key for session, _ in store.backward_fetch_range("ab", None)] == ["b"] * 4 + ["ab"]
    assert list(store.fetch_range("b", "a")) == []
    assert list(store.fetch("absent")) == []
    assert spans(store.fetch("a")) == SPANS
    assert spans(store.backward_fetch("a")) == SPANS[::-1]


def test_sessions_that_ended_between_two_times_both_included(store: Sessions) -> None:
    assert spans(store.find_sessions_ended(5, 10)) == SPANS[:3] * 2
    assert spans(store.find_sessions_ended(6, 9)) == []
    assert spans(store.find_sessions_ended(-5, 5)) == SPANS[:2] * 2


def test_exactly_one_session(store: Sessions) -> None:
    assert [store.fetch_session("a", 3, end_ms) for end_ms in (4, 5, 6)] == [None, "a", None]
    store.put("a", 3, 5, None)
    assert store.fetch_session("a", 3, 5) is None
    store.remove("a", 0, 5)
    store.remove("a", 0, 5)
    assert spans(store.fetch("a")) == SPANS[2:]


def test_a_removal_moves_no_time(store: Sessions) -> None:
    store.remove("a", 0, 5000)
    assert store.stream_time.observed_ms == 30


def test_expired_sessions_are_never_seen_and_late_puts_are_counted(store: Sessions) -> None:
    store.put("c", 109, 109, "c")
    assert spans(store.fetch("a")) == SPANS[2:]
    assert spans(store.fetch_range("a", "a")) == SPANS[2:]
    assert (store.fetch_session("a", 0, 5), store.fetch_session("a", 10, 10)) == (None, "a")
    store.put("late", 0, 9, "x")
    store.put("in time", 0, 10, "x")
    assert (list(store.fetch("late")), spans(store.fetch("in time"))) == ([], [(0, 10)])
    assert store.stream_time.dropped_total == 1


def test_a_session_may_be_a_moment_at_the_end_of_time() -> None:
    store = opened()
    store.put("a", MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS, "v")
    assert list(store.fetch("a")) == [(Windowed("a", MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS), "v")]
    assert list(store.find_sessions("a", MAX_TIMESTAMP_MS + 1, MAX_TIMESTAMP_MS)) == []


def test_a_put_that_is_refused_moves_nothing(store: Sessions) -> None:
    wrong: Any = 5.5
    with pytest.raises(InvalidWindowError):
        store.put("a", 5001, 5000, "v")
    for start_ms, end_ms in ((-1, 5000), (0, 1 << 63), (wrong, 5000), (0, wrong)):
        with pytest.raises(InvalidTimestampError):
            store.put("a", start_ms, end_ms, "v")
    for key, value in (("a", wrong), (wrong, "v")):
        with pytest.raises(SerializationError):
            store.put(key, 4000, 5000, value)
    assert (store.stream_time.observed_ms, spans(store.fetch("a"))) == (30, SPANS)


def test_none_is_no_key(store: Sessions) -> None:
    none: Any = None
    for call in (
        lambda: store.put(none, 0, 1, "v"),
        lambda: store.remove(none, 0, 1),
        lambda: store.fetch_session(none, 0, 1),
        lambda: store.find_sessions(none, 0, 1),
        lambda: store.fetch(none),
    ):
        with pytest.raises(NullKeyError):
            call()


def test_everything_raises_after_close(store: Sessions) -> None:
    store.close()
    for call in (
        lambda: store.fetch_session("a", 10, 10),
        lambda: store.fetch("a"),
        lambda: store.find_sessions_ended(0, 100),
    ):
        with pytest.raises(StoreClosedError):
            call()


def test_a_restore_rebuilds_stream_time_from_keys() -> None:
    store = opened()
    store.restore_batch([(session_row_key(b"a", 150, 200), b"1"), (session_row_key(b"a", 10, 101), b"2")])
    stored = StoreStreamTime(100, store.layers.top.metadata(STREAM_TIME_KEY))
    assert (store.stream_time.observed_ms, stored.observed_ms) == (200, 200)
    assert spans(store.fetch("a")) == [(10, 101), (150, 200)]
    store.put("a", 0, 100, "late")
    assert store.stream_time.dropped_total == 1
