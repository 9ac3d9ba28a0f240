"""Records of a backlog whose times are read."""

from __future__ import annotations

from collections.abc import Mapping

from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.engine.runtime.record_times import RecordTimes, Times, is_held_up

PLACE = ("clicks", 0)
FAR_MS = 1_000_000


class Log:
    """A partition in which each second offset has no record, as behind small transactions; and what was read of it."""

    def __init__(self, times: list[int]) -> None:
        self.records = [(2 * at, time_ms) for at, time_ms in enumerate(times)]
        self.end, self.read_to = 2 * len(times), 0

    def __call__(self, ranges: Mapping[TopicAndPartition, tuple[int, int]]) -> dict[TopicAndPartition, Times]:
        [(place, (start, end))] = ranges.items()
        assert place == PLACE
        assert start >= self.read_to, "each is read once"
        self.read_to = end
        return {PLACE: [one for one in self.records if start <= one[0] < end]}


def test_a_record_is_due_when_it_is_its_time_or_that_of_one_in_front_of_it() -> None:
    log = Log([0, 10, 20, 15, 30, *range(40, 80)])
    times = RecordTimes(PLACE, 0, log)
    assert [times.first_at(ms, 0, log.end, log.end) for ms in (0, 1, 15, 20, 21, 1000)] == [0, 2, 4, 4, 8, log.end]


def test_nothing_waits_for_a_record_that_is_ahead_of_its_place() -> None:
    log = Log([10, FAR_MS, FAR_MS, 20, 30, *range(40, 80)])
    times = RecordTimes(PLACE, 0, log)
    assert times.first_at(20, 0, log.end, log.end) == 6
    assert times.first_at(21, 0, log.end, log.end) == 8


def test_what_lies_in_front_of_a_batch_holds_up_nothing_in_it() -> None:
    log = Log([*range(20), 90, *range(70, 90), *range(90, 130)])
    times = RecordTimes(PLACE, 0, log)
    late = RecordTimes(PLACE, 42, Log([*range(20), 90, *range(70, 90), *range(90, 130)]))
    assert times.first_at(75, 42, log.end, log.end) == late.first_at(75, 42, log.end, log.end) > 42


def test_no_more_is_read_than_a_batch_and_a_few_records_behind() -> None:
    log = Log([*range(50_000)])
    times = RecordTimes(PLACE, 0, log)
    assert 1000 <= times.first_at(30_000, 0, 1000, log.end) <= log.read_to <= 1100
    assert times.first_at(700, 1000, 1000, log.end) == 1400
    assert times.first_at(5000, 40_000, 1000, log.end) == 40_000, "a batch has read further, all of it fitted"


def test_whether_a_partition_is_held_up() -> None:
    rest = [(at, 50 + at) for at in range(1, 20)]
    assert is_held_up([(0, FAR_MS), *rest], 40)
    assert is_held_up([(0, 30), *rest], 40), "a record in front of it has been read"
    assert not is_held_up([(0, 50), *rest], 40)
    assert not is_held_up([(0, FAR_MS), (1, FAR_MS + 1)], 40), "a table whose next rows come later"
    assert not is_held_up([(0, 50)], 40)
    assert not is_held_up([], 40)
