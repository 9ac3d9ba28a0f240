"""Batches end at one time where records meet, and within the limit."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from harness.poison import ODD_TIMES_MS
from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.engine.runtime.batch_ends import BatchEnds, TopicGroup
from storekeeper.engine.runtime.record_times import LOOKAHEAD, Times

Logs = Mapping[TopicAndPartition, Sequence[int]]
TABLE_FIRST = TopicGroup(("names", "clicks"), meet=True)
APART = TopicGroup(("other",), meet=False)
ODD_TIMES = [*ODD_TIMES_MS.values(), 7]
TIMES = st.lists(st.integers(-3, 30) | st.integers(0, 1 << 45), max_size=30)


@st.composite
def times_with_odd_ones(draw: st.DrawFn) -> list[int]:
    times = sorted(draw(st.lists(st.integers(0, 60), max_size=40)))
    odd = draw(st.dictionaries(st.integers(0, 39), st.sampled_from(ODD_TIMES), max_size=5))
    return [odd.get(at, time) for at, time in enumerate(times)]


LOGS = st.dictionaries(
    st.tuples(st.sampled_from(["names", "clicks", "other"]), st.integers(0, 2)),
    TIMES | times_with_odd_ones(),
    min_size=1,
    max_size=6,
)


def ends_of(groups: Sequence[TopicGroup], most: int, asked: Asked) -> BatchEnds:
    return BatchEnds(groups, most, asked, asked.read)


class Asked:
    """A broker that knows the times of records, and how often it was asked and how much was read."""

    def __init__(self, logs: Logs) -> None:
        self._logs, self.times, self.read_records = logs, 0, 0

    def __call__(self, places: Iterable[TopicAndPartition], time_ms: int) -> dict[TopicAndPartition, int]:
        assert time_ms >= 0, "below are Kafka's names of the two ends"
        self.times += 1
        found = {place: [at for at, time in enumerate(self._logs[place]) if time >= time_ms] for place in places}
        return {place: offsets[0] for place, offsets in found.items() if offsets}

    def read(self, ranges: Mapping[TopicAndPartition, tuple[int, int]]) -> dict[TopicAndPartition, Times]:
        for place, (first, behind) in ranges.items():
            assert 0 <= first < behind <= len(self._logs[place])
            self.read_records += behind - first
        return {place: [*enumerate(self._logs[place][slice(*ends)], ends[0])] for place, ends in ranges.items()}


def due(times: Sequence[int], start: int) -> list[int]:
    """When the records of a partition are due in a batch that begins at `start`."""
    found = [-1]
    for at in range(start, len(times)):
        behind = times[at + 1 : at + 16]
        is_ahead = sum(time < times[at] for time in behind) > len(behind) / 2
        found.append(found[-1] if is_ahead else max(found[-1], times[at]))
    return found[1:]


@given(logs=LOGS, most=st.integers(1, 12))
def test_batches_have_all_records_in_the_order_of_their_times(logs: Logs, most: int) -> None:
    plan = ends_of([TABLE_FIRST, APART], most, Asked(logs))
    end = {place: len(times) for place, times in logs.items()}
    start = dict.fromkeys(end, 0)
    for _ in range(300):
        if start == end:
            break
        planned = plan(start, end)
        taken = sum(planned.values()) - sum(start.values())
        assert 0 < taken <= most + len(logs), "each partition of a topic for itself gets one at least"
        assert all(start[place] <= planned[place] <= end[place] for place in end)
        split = [
            (place[0] == "clicks", due(times, start[place]), planned[place] - start[place])
            for place, times in logs.items()
            if place[0] != "other"
        ]
        last = max(((times[count - 1], is_click) for is_click, times, count in split if count), default=None)
        rest = min(((times[count], is_click) for is_click, times, count in split if count < len(times)), default=None)
        if last is not None and rest is not None:
            assert last <= rest, "a table's records are first among those of one time"
        start = planned
    assert start == end


def test_what_fits_is_planned_without_asking() -> None:
    asked = Asked({})
    end = {("names", 0): 5, ("clicks", 0): 5, ("between", 0): 900}
    assert ends_of([TABLE_FIRST], 10, asked)(dict.fromkeys(end, 0), end) == end
    assert asked.times == 0


def test_what_is_not_limited_is_read_to_its_end() -> None:
    logs = {("names", 0): range(100), ("clicks", 0): range(100)}
    end = {place: len(times) for place, times in logs.items()} | {("between", 0): 900}
    planned = ends_of([TABLE_FIRST], 10, Asked(logs))(dict.fromkeys(end, 0), end)
    assert planned[("between", 0)] == 900
    assert 3 <= planned[("names", 0)] == planned[("clicks", 0)] <= 5


def test_a_backlog_takes_few_questions_a_batch() -> None:
    now_ms, rng = 1_800_000_000_000, random.Random(1)
    times = sorted(now_ms + rng.randrange(86_400_000) for _ in range(50_000))
    logs = {("names", 0): times[::5], ("clicks", 0): times}
    asked = Asked({place: [*each] for place, each in logs.items()})
    plan = ends_of([TABLE_FIRST], 2000, asked)
    start, end, batches = dict.fromkeys(logs, 0), {place: len(each) for place, each in logs.items()}, 0
    while start != end:
        start, batches = plan(start, end), batches + 1
        if batches == 1:
            assert asked.times < 45
            asked.times = 0
    assert batches < 80
    assert asked.times < 4 * batches
    assert asked.read_records <= LOOKAHEAD * len(logs) * batches


def test_no_more_is_read_of_many_partitions_with_odd_times_than_a_batch_takes() -> None:
    logs = {("clicks", number): [ODD_TIMES_MS["beyond year 9999"], *range(2000)] for number in range(50)}
    asked = Asked(logs)
    plan, start = ends_of([TABLE_FIRST], 1000, asked), dict.fromkeys(logs, 0)
    planned = plan(start, {place: len(times) for place, times in logs.items()})
    assert len({*planned.values()}) == 1, "all are read to one time"
    assert 500 < sum(planned.values()) <= 1000
    assert asked.read_records < 3 * (1000 + LOOKAHEAD * len(logs))


def test_one_time_that_too_many_records_have_is_read_in_parts_tables_first() -> None:
    logs = {("clicks", 0): [7] * 50, ("clicks", 1): [7] * 50, ("names", 0): [7] * 30}
    plan, start, end = (
        ends_of([TABLE_FIRST], 20, Asked(logs)),
        dict.fromkeys(logs, 0),
        {at: len(logs[at]) for at in logs},
    )
    first = plan(start, end)
    assert first == {("clicks", 0): 0, ("clicks", 1): 0, ("names", 0): 20}
    second = plan(first, end)
    assert second == {("clicks", 0): 10, ("clicks", 1): 0, ("names", 0): 30}


def test_nothing_that_was_read_is_taken_back_for_late_records_of_another_partition() -> None:
    logs = {("clicks", 0): list(range(100, 140)), ("clicks", 1): list(range(40))}
    start = {("clicks", 0): 30, ("clicks", 1): 0}
    planned = ends_of([TABLE_FIRST], 20, Asked(logs))(start, dict.fromkeys(logs, 40))
    assert planned[("clicks", 0)] == 30
    assert 0 < planned[("clicks", 1)] <= 20
