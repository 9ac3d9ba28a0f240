"""What is planned of what the broker reports. The broker is played."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storekeeper.apps.errors import LostInputError
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime import planner as planner_module
from storekeeper.engine.runtime.batch_ends import TopicGroup
from storekeeper.engine.runtime.planner import Planner
from storekeeper.engine.runtime.topics import TopicBounds

GROUPS = [TopicGroup(("in",), meet=False)]


class PlayedTopics:
    """A broker whose answers a test sets."""

    begin = Position({"in": {0: 3, 1: 0}})
    ends = Position({"in": {0: 9, 1: 4, 10: 1, 2: 0}, "between": {0: 7}})
    is_away = False

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        assert list(names) == ["in", "between"]
        if self.is_away:
            raise BrokerUnavailableError("away")
        return TopicBounds(self.begin, self.ends)

    def end(self, names: Iterable[str]) -> Position:
        if self.is_away:
            raise BrokerUnavailableError("away")
        return self.ends

    def first_offsets_at(self, *_: object) -> dict[Any, int]:
        raise AssertionError("one topic alone is cut by numbers")

    times = first_offsets_at


@pytest.fixture
def topics() -> PlayedTopics:
    return PlayedTopics()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(planner_module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


@pytest.fixture
def planner(topics: PlayedTopics, clock: list[float]) -> Callable[..., Planner]:
    return lambda most=100: Planner(cast("Any", topics), GROUPS, most=most, unlimited=["between"])


def test_a_batch_has_what_there_is_within_the_limit(planner: Callable[..., Planner]) -> None:
    start = planner().first()
    assert start == PlayedTopics.begin
    assert planner().next(start) == PlayedTopics.ends
    limited = Position({"between": {0: 7}, "in": {0: 6, 1: 2, 2: 0, 10: 1}})
    assert planner(5).next(start) == limited
    assert planner().next(PlayedTopics.ends) == PlayedTopics.ends


def test_topics_that_were_made_a_moment_ago_are_waited_for(
    planner: Callable[..., Planner], topics: PlayedTopics, clock: list[float]
) -> None:
    topics.is_away = True
    with pytest.raises(BrokerUnavailableError):
        planner().first()
    assert 30 < clock[0] < 31


@pytest.mark.parametrize(
    ("is_away", "read", "told"),
    [
        (True, 3, pytest.raises(BrokerUnavailableError)),
        (False, 5, pytest.raises(LostInputError, match="topic in ends at 4 in partition 1, and was read to 5")),
    ],
)
def test_a_broker_that_is_away_or_behind_for_a_moment_has_no_news(
    planner: Callable[..., Planner], topics: PlayedTopics, clock: list[float], *, is_away: bool, read: int, told: Any
) -> None:
    made, start = planner(), Position({"in": {1: read}})
    clock[0] += 100  # a batch has run for long
    topics.is_away = is_away
    assert (made.next(start), made.has_news) == (start, False)
    clock[0] += 31
    with told:
        made.next(start)


def test_a_broker_that_goes_away_while_times_are_looked_up_is_waited_for_too(
    topics: PlayedTopics, clock: list[float]
) -> None:
    def away(*_: object) -> dict[Any, int]:
        raise BrokerUnavailableError("away")

    topics.first_offsets_at = away  # type: ignore[method-assign]
    made = Planner(cast("Any", topics), [TopicGroup(("in",), meet=True)], most=3)
    assert made.next(PlayedTopics.begin) == PlayedTopics.begin
