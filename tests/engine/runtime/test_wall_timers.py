"""When a batch without records is due, by what the tasks of the last batch have reported."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from storekeeper.engine.runtime import wall_timers
from storekeeper.engine.runtime.sink_metrics import Written, decode_outcome, encode_outcome
from storekeeper.engine.runtime.wall_timers import WallTimers


class PlayedTime:
    """Monotonic time that stands still."""

    now_s = 100.0


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> type[PlayedTime]:
    monkeypatch.setattr(wall_timers, "time", SimpleNamespace(monotonic=lambda: PlayedTime.now_s))
    monkeypatch.setattr(PlayedTime, "now_s", 100.0)
    return PlayedTime


def due_after(timers: WallTimers, at: type[PlayedTime], *seconds: float) -> list[bool]:
    """Whether a batch is due after each of some times."""
    began_s, found = at.now_s, []
    for after_s in seconds:
        at.now_s = began_s + after_s
        found.append(timers.due())
    at.now_s = began_s
    return found


def test_what_has_no_processors_is_never_asked(at: type[PlayedTime]) -> None:
    timers = WallTimers(frozenset())
    assert (timers.due(), timers.subs) == (False, frozenset())
    timers.learn([Written(rows=1)], at.now_s)
    timers.learn([Written(replayed_tasks=1)], at.now_s)
    assert (timers.due(), timers.subs) == (False, frozenset())


def test_the_first_batch_asks_all_that_may_have_timers(at: type[PlayedTime]) -> None:
    timers = WallTimers(frozenset({1, 2, 3}))
    assert (timers.due(), timers.subs) == (True, frozenset({1, 2, 3}))
    timers.learn([Written(), Written(timer=(2, 60_000)), Written()], at.now_s)
    assert timers.subs == {2}
    assert due_after(timers, at, 0, 59.9, 60) == [False, False, True]
    timers.learn([Written(rows=1)], at.now_s)  # it was cancelled
    assert (due_after(timers, at, 0, 999), timers.subs) == ([False, False], frozenset())


def test_a_replay_tells_nothing(at: type[PlayedTime]) -> None:
    timers = WallTimers(frozenset({1, 2}))
    timers.learn([Written(timer=(2, 60_000))], at.now_s)
    timers.learn([Written(timer=(2, 60_000)), Written(replayed_tasks=1)], at.now_s)
    assert (timers.due(), timers.subs) == (True, frozenset({1, 2}))


def test_timers_of_one_second_fire_together(at: type[PlayedTime]) -> None:
    timers = WallTimers(frozenset({1, 2}))
    timers.learn([Written(timer=(1, 5000)), Written(timer=(1, 5900)), Written(timer=(2, 6100))], at.now_s)
    assert due_after(timers, at, 5, 5.8, 5.9) == [False, False, True]


def test_batches_without_records_begin_a_second_apart_at_least(at: type[PlayedTime]) -> None:
    timers = WallTimers(frozenset({1}))
    timers.learn([Written(timer=(1, 0))], at.now_s - 0.4)
    assert due_after(timers, at, 0, 0.5, 0.6) == [False, False, True]
    timers.learn([Written(timer=(1, 200))], at.now_s - 30)
    assert due_after(timers, at, 0, 0.2) == [False, True]


def test_a_timer_comes_from_a_task_to_its_driver_and_is_not_added_up() -> None:
    one = decode_outcome(encode_outcome(Written(rows=2, timer=(3, 1000))))
    assert one.timer == (3, 1000)
    assert (one + one) == Written(rows=4)
