from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import InvalidWindowError
from storekeeper.topology.windows import (
    FOREVER_MS,
    SessionWindow,
    SessionWindows,
    SlidingWindow,
    SlidingWindows,
    TimeWindow,
    TimeWindows,
    UnlimitedWindow,
    UnlimitedWindows,
    Window,
)


def bounds(windows: TimeWindows | UnlimitedWindows, timestamp_ms: int) -> list[tuple[int, int]]:
    found = [windows.window_at(start_ms) for start_ms in windows.starts_for(timestamp_ms)]
    return [(window.start_ms, window.end_ms) for window in found]


def test_tumbling_windows_stand_side_by_side() -> None:
    windows = TimeWindows.tumbling(12)
    assert bounds(windows, 21) == [(12, 24)]
    assert bounds(windows, 23) == [(12, 24)]
    assert bounds(windows, 24) == [(24, 36)]


def test_hopping_windows_come_earliest_first() -> None:
    assert bounds(TimeWindows.hopping(12, advance_ms=5), 21) == [(10, 22), (15, 27), (20, 32)]
    assert bounds(TimeWindows.hopping(6, advance_ms=5), 7) == [(5, 11)]
    assert bounds(TimeWindows.hopping(10, advance_ms=5), 0) == [(0, 10)]


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 500))
def test_starts_for_finds_every_aligned_window_that_holds_the_time(size: int, advance: int, time: int) -> None:
    advance = min(advance, size)
    aligned = [(start, start + size) for start in range(0, time + 1, advance) if start <= time < start + size]
    assert bounds(TimeWindows.hopping(size, advance_ms=advance), time) == aligned


@given(st.integers(1, 50), st.integers(0, 20), st.integers(0, 300), st.integers(0, 300))
def test_the_start_and_the_window_agree_about_being_closed(size: int, grace: int, start: int, now: int) -> None:
    for windows in (TimeWindows.tumbling(size, grace_ms=grace), SlidingWindows(size, grace)):
        closed = windows.closes_at_ms(windows.window_at(start).end_ms) <= now
        assert closed == (start <= windows.starts_closed_by(now))
    sessions = SessionWindows(size, grace)
    assert (sessions.closes_at_ms(start) <= now) == (start <= sessions.ends_closed_by(now))


def test_when_windows_close() -> None:
    assert TimeWindows.tumbling(10, grace_ms=3).closes_at_ms(10) == 13
    assert SlidingWindows(10, 3).closes_at_ms(10) == 14
    assert SessionWindows(5, 3).closes_at_ms(10) == 19
    assert UnlimitedWindows().closes_at_ms(FOREVER_MS) == FOREVER_MS
    assert UnlimitedWindows().starts_closed_by(FOREVER_MS) < 0


def test_an_unlimited_window_holds_everything_since_its_start() -> None:
    windows = UnlimitedWindows(10)
    assert bounds(windows, 9) == []
    assert bounds(windows, 10) == [(10, FOREVER_MS)]
    assert bounds(windows, 11) == [(10, FOREVER_MS)]
    assert windows.window_at(10) == UnlimitedWindow.since(10)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ((50, 100), (0, 50), False),
        ((50, 100), (0, 51), True),
        ((50, 100), (99, 150), True),
        ((50, 100), (100, 150), False),
        ((50, 100), (60, 70), True),
        ((50, 100), (0, 150), True),
    ],
)
def test_time_windows_that_only_touch_do_not_overlap(
    one: tuple[int, int], other: tuple[int, int], overlap: bool
) -> None:
    assert TimeWindow(*one).overlap(TimeWindow(*other)) is overlap
    assert TimeWindow(*other).overlap(TimeWindow(*one)) is overlap


@pytest.mark.parametrize(
    ("other", "overlap"),
    [((0, 49), False), ((0, 50), True), ((50, 50), True), ((100, 100), True), ((101, 150), False), ((0, 150), True)],
)
def test_sessions_that_touch_overlap(other: tuple[int, int], overlap: bool) -> None:
    assert SessionWindow(50, 100).overlap(SessionWindow(*other)) is overlap


def test_unlimited_windows_always_overlap() -> None:
    assert UnlimitedWindow.since(50).overlap(UnlimitedWindow.since(49))
    assert UnlimitedWindow.since(50).overlap(UnlimitedWindow.since(51))


@pytest.mark.parametrize("other", [SessionWindow(50, 100), SlidingWindow(50, 100), UnlimitedWindow(50, 100)])
def test_windows_of_different_shapes_are_not_compared(other: Window) -> None:
    window = TimeWindow(50, 100)
    assert window != other
    with pytest.raises(InvalidWindowError, match="like with like"):
        window.overlap(other)
    with pytest.raises(InvalidWindowError, match="like with like"):
        other.overlap(window)


@pytest.mark.parametrize(
    "build",
    [
        lambda: TimeWindows.tumbling(0),
        lambda: TimeWindows.tumbling(-1),
        lambda: TimeWindows.tumbling(3, grace_ms=-1),
        lambda: TimeWindows.hopping(10, advance_ms=0),
        lambda: TimeWindows.hopping(10, advance_ms=-1),
        lambda: TimeWindows.hopping(10, advance_ms=11),
        lambda: SlidingWindows(-1),
        lambda: SlidingWindows(10, -1),
        lambda: SessionWindows(0),
        lambda: SessionWindows(-1),
        lambda: SessionWindows(1, -1),
        lambda: UnlimitedWindows(-1),
        lambda: UnlimitedWindows(0, 1),
        lambda: TimeWindow(50, 50),
        lambda: TimeWindow(50, 49),
        lambda: TimeWindow(-1, 5),
        lambda: SessionWindow(5, 4),
    ],
)
def test_windows_that_cannot_work_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidWindowError):
        build()


def test_smallest_windows_are_allowed() -> None:
    assert bounds(TimeWindows.tumbling(1), 7) == [(7, 8)]
    assert SlidingWindows(0).window_at(7) == SlidingWindow(7, 7)
    assert SessionWindows(1).closes_at_ms(7) == 9


@pytest.mark.parametrize("windows", [TimeWindows.tumbling(5), UnlimitedWindows()])
def test_negative_timestamps_belong_to_no_window(windows: TimeWindows | UnlimitedWindows) -> None:
    assert not windows.starts_for(-1)


def test_merged_sessions_cover_both() -> None:
    assert SessionWindow(5, 9).merge(SessionWindow(1, 7)) == SessionWindow(1, 9)
