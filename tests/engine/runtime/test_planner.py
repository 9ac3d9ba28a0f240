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

    begin = Position({"in": {0: 3, 1: 0, 10: 0, 2: 0}, "between": {0: 0}})
    ends = Position({"in": {0: 9, 1: 4, 10: 1, 2: 0}, "between": {0: 7}})
    is_away = False

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        assert {*names} <= {"in", "between"}
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
    assert planner().next(start) == (start, PlayedTopics.ends)
    limited = Position({"between": {0: 7}, "in": {0: 6, 1: 2, 2: 0, 10: 1}})
    assert planner(5).next(start) == (start, limited)
    assert planner().next(PlayedTopics.ends) == (PlayedTopics.ends, PlayedTopics.ends)


def at(first: int, clicks: int | None = None) -> Position:
    return Position({"in": {0: first}} | ({} if clicks is None else {"clicks": {1: clicks}}))


class CutTopics(PlayedTopics):
    """A topic that the app doesn't know, and whose first records are gone; each answer finds more of them gone."""

    cut, rest, asked = 5000, 20, 0

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        assert list(names) == ["clicks"]
        self.asked += 1
        return TopicBounds(Position({"clicks": {1: self.cut}}), Position({"clicks": {1: self.cut + self.rest}}))

    def end(self, names: Iterable[str]) -> Position:
        assert list(names) == ["in", "clicks"]
        return at(9, 4000)


@pytest.mark.parametrize("rest", [20, 0])
def test_a_partition_that_is_new_to_the_app_begins_at_its_first_offset(rest: int) -> None:
    topics = CutTopics()
    topics.rest = rest
    made = Planner(cast("Any", topics), [*GROUPS, TopicGroup(("clicks",), meet=False)], most=1000)
    assert made.next(at(3)) == (at(3, 5000), at(9, 5000 + rest))
    topics.cut = 5010
    assert made.next(at(9)) == (at(9, 5010), at(9, 5010 + rest)), "a batch that was not planned"
    assert topics.asked == 2


def test_where_a_partition_begins_that_was_read_is_not_asked_for() -> None:
    topics = CutTopics()
    made = Planner(cast("Any", topics), [*GROUPS, TopicGroup(("clicks",), meet=False)], most=10_000)
    assert made.next(at(9, 100)) == (at(9, 100), at(9, 4000))
    assert topics.asked == 0


def test_records_in_front_of_a_new_partitions_first_are_not_counted() -> None:
    topics = CutTopics()
    made = Planner(cast("Any", topics), [*GROUPS, TopicGroup(("clicks",), meet=False)], most=13)
    assert made.next(at(3)) == (at(3, 5000), at(6, 5010)), "half of the 6 and the 20 that there are"


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
    made, start = planner(), Position({**PlayedTopics.begin.offsets, "in": {0: 3, 1: read, 2: 0, 10: 0}})
    clock[0] += 100  # a batch has run for long
    topics.is_away = is_away
    assert (made.next(start), made.has_news) == ((start, start), False)
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
    assert made.next(PlayedTopics.begin) == (PlayedTopics.begin, PlayedTopics.begin)
