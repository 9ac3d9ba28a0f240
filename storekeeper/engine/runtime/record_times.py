"""When the records of a partition are due in a backlog, where a lookup by time doesn't tell. Pure.

A lookup finds the first record of a time or later. Where a producer's clock was ahead, that is not the first one that
should wait: behind it lie records that are due. So their times are read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from storekeeper.changelog.log_bounds import TopicAndPartition

Times = Sequence[tuple[int, int]]
"""Offsets of records of a partition, ascending, and their times in epoch milliseconds."""

ReadTimes = Callable[[Mapping[TopicAndPartition, tuple[int, int]]], Mapping[TopicAndPartition, Times]]
"""Reads those of some partitions, each from one offset to before another."""

FOLLOWING = 15
"""How many records behind one tell whether its time is ahead of its place."""
LOOKAHEAD = 64
"""Offsets that are read to find them: some have no record."""

_PART = 10_000
_NO_TIME_MS = -1


def is_held_up(times: Times, due_ms: int) -> bool:
    """Whether a partition whose first records have such times is held up, though it has records of before `due_ms`.

    Either its first record is ahead of those behind it, or it is old, and a record in front of it has been read.
    """
    first_ms = times[0][1] if times else due_ms
    return first_ms < due_ms or _is_ahead(times, 0)


class RecordTimes:
    """When the records of one partition are due. Not thread-safe.

    A record is due at its own time, and not before the one in front of it in a batch. One that is ahead of its place,
    later than most of the `FOLLOWING` behind it, is due with those in front of it, and nothing waits for it. What is
    read is kept until it lies in front of a batch.
    """

    def __init__(self, place: TopicAndPartition, begin: int, read: ReadTimes) -> None:
        """Reads nothing yet. `begin` is where a batch starts."""
        self._place, self._read, self._start, self._read_to = place, read, begin, begin
        self._offsets, self._times, self._due_ms = array("q"), array("q"), array("q")
        self._undecided: list[tuple[int, int]] = []

    def first_at(self, time_ms: int, start: int, most: int, log_end: int) -> int:
        """The offset of the first record that is due at a time or later, in a batch from `start` on; if none is known,
        the end of those that are. `start` never goes back. No record lies behind `log_end`.

        Reads what is missing of the first `most` offsets, and a few behind. The answer may lie further, where earlier
        calls have read.
        """
        if start > self._start:
            self._begin(start)
        end = min(start + most + LOOKAHEAD, log_end)
        while self._read_to < end and (not self._due_ms or self._due_ms[-1] < time_ms):
            self._read_more(end, log_end)
        at = bisect_left(self._due_ms, time_ms)
        if at < len(self._offsets):
            return self._offsets[at]
        return self._undecided[0][0] if self._undecided else self._read_to

    def _begin(self, start: int) -> None:
        """What lies in front of a batch holds up nothing in it."""
        self._start, self._read_to = start, max(start, self._read_to)
        self._undecided = [one for one in self._undecided if one[0] >= start]
        past = bisect_left(self._offsets, start)
        del self._offsets[:past], self._times[:past]
        self._due_ms = array("q", accumulate(self._times, max))

    def _read_more(self, end: int, log_end: int) -> None:
        begin, self._read_to = self._read_to, min(self._read_to + _PART, end)
        read = self._read({self._place: (begin, self._read_to)})[self._place]
        records = [*self._undecided, *read]
        latest_ms = self._due_ms[-1] if self._due_ms else _NO_TIME_MS
        decided = 0
        for at, (offset, time_ms) in enumerate(records):
            if self._read_to < min(offset + LOOKAHEAD, log_end) and len(records) - at <= FOLLOWING:
                break
            own_ms = _NO_TIME_MS if _is_ahead(records, at) else time_ms
            latest_ms = max(latest_ms, own_ms)
            self._offsets.append(offset)
            self._times.append(own_ms)
            self._due_ms.append(latest_ms)
            decided += 1
        self._undecided = records[decided:]


def _is_ahead(times: Times, at: int) -> bool:
    following = times[at + 1 : at + 1 + FOLLOWING]
    return 2 * sum(time_ms < times[at][1] for _, time_ms in following) > len(following)
