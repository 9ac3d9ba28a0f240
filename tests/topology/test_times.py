"""Timers fire when their clock says so, in each batch anew, as the due times of the batch before are kept."""

from __future__ import annotations

import pytest

from storekeeper.topology.times import TimeKind, Timers

NOW_MS = 1_700_000_000_000
YEAR_MS = 365 * 24 * 3_600_000


def fired(due: dict[str, int], kind: TimeKind, now_ms: int, every_ms: int = 1000) -> tuple[bool, dict[str, int]]:
    """Whether a timer fires in a batch, and what the next batch knows of it."""
    calls: list[int] = []
    timers = Timers(due)
    timers.add("tick", every_ms, kind, calls.append)
    timers.advance(kind, now_ms)
    return bool(calls), timers.due()


def test_a_timer_by_the_wall_clock_goes_on_when_a_clock_that_was_ahead_is_set_right() -> None:
    _, due = fired({}, TimeKind.WALL_CLOCK, NOW_MS)
    ahead, due = fired(due, TimeKind.WALL_CLOCK, NOW_MS + YEAR_MS)
    found = [ahead]
    for now_ms in (NOW_MS + 1000, NOW_MS + 1999, NOW_MS + 2000, NOW_MS + 3000):
        fires, due = fired(due, TimeKind.WALL_CLOCK, now_ms)
        found.append(fires)
    assert found == [True, False, False, True, True]


@pytest.mark.parametrize("kind", TimeKind)
def test_a_shorter_interval_counts_from_the_next_look(kind: TimeKind) -> None:
    _, due = fired({"tick": NOW_MS}, kind, NOW_MS, every_ms=YEAR_MS)
    assert due == {"tick": NOW_MS + YEAR_MS}
    found = []
    for now_ms in (NOW_MS + 1, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 2001):
        fires, due = fired(due, kind, now_ms)
        found.append(fires)
    assert found == [False, False, True, True]


def test_a_longer_interval_begins_at_the_time_that_was_due() -> None:
    fires, due = fired({"tick": NOW_MS + 1000}, TimeKind.WALL_CLOCK, NOW_MS + 1000, every_ms=5000)
    assert (fires, due) == (True, {"tick": NOW_MS + 6000})


def test_the_time_until_a_timer_is_due_counts_those_by_the_wall_clock_alone() -> None:
    timers = Timers({"stream": NOW_MS - 1, "gone": NOW_MS + 1})
    timers.add("stream", 1000, TimeKind.STREAM_TIME, lambda _: None)
    timers.add("gone", 1000, TimeKind.WALL_CLOCK, lambda _: None).cancel()
    assert timers.due_in_ms(NOW_MS) is None
    for every_ms in (3000, 2000):
        timers.add(f"wall-{every_ms}", every_ms, TimeKind.WALL_CLOCK, lambda _: None)
    timers.advance(TimeKind.WALL_CLOCK, NOW_MS)
    assert [timers.due_in_ms(NOW_MS + after_ms) for after_ms in (0, 500, 2500)] == [2000, 1500, 0]
