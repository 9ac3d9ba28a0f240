"""Where a batch ends, of what waits in an app's topics. Pure.

Topics whose records meet in a task are cut at one time: a batch has the records of each that are older. So a stream
that is joined with a table meets, at a first start and after an outage too, the rows that it would have met live.
The time of a record is its own in Kafka; a record that is older than one in front of it waits for that one, unless
that one is ahead of its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.engine.runtime.record_times import LOOKAHEAD, ReadTimes, RecordTimes, is_held_up

Offsets = Mapping[TopicAndPartition, int]

Counts = dict[TopicAndPartition, int]

OffsetsAt = Callable[[Sequence[TopicAndPartition], int], Offsets]
"""Of some partitions: the first offset whose record is of that time or later; those without one are left out."""

_LATEST_MS = 1 << 62
_FIRST_STEP_MS = 1 << 40


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics of an app that are cut together. `topics` are in the order in which records of one time are taken. Where
    records of several partitions or topics don't `meet`, they need no common time.
    """

    topics: tuple[str, ...]
    meet: bool


@dataclass
class BatchEnds:
    """Plans the ends of batches, one after the other. The records of `groups` are limited to `most` a batch; all other
    topics are read to their ends. `offsets_at` looks offsets up by time, and `read_times` reads times where that
    doesn't do.
    """

    groups: Sequence[TopicGroup]
    most: int
    offsets_at: OffsetsAt
    read_times: ReadTimes
    _cuts: dict[TopicGroup, tuple[int, int]] = field(default_factory=dict)
    _in_order: dict[TopicAndPartition, tuple[int, int]] = field(default_factory=dict)
    """Offset and time of the last record of each partition that was looked at and is not ahead of its place."""
    _read: dict[TopicAndPartition, RecordTimes] = field(default_factory=dict)
    """The partitions in which a lookup by time is of no use until the backlog is over."""

    def __call__(self, start: Offsets, end: Offsets) -> dict[TopicAndPartition, int]:
        """The end of a batch that begins at `start`, of what there is up to `end`. Both have the same partitions."""
        counts = {place: offset - start[place] for place, offset in end.items()}
        waiting = {
            group: {place: count for place, count in counts.items() if count > 0 and place[0] in group.topics}
            for group in self.groups
        }
        total = sum(map(_sum, waiting.values()))
        ends = dict(end)
        if total <= self.most:
            self._read.clear()
            return ends
        for group, of_group in waiting.items():
            share = max(1, self.most * _sum(of_group) // total)
            taken = self._older(group, of_group, start, share) if group.meet else _in_proportion(of_group, share)
            ends |= {place: start[place] + count for place, count in taken.items()}
        return ends

    def _older(self, group: TopicGroup, waiting: Counts, start: Offsets, most: int) -> Counts:
        """How many records of each partition are older than a time that at most `most` of all are older than."""
        if _sum(waiting) <= most:
            return waiting
        while True:
            low_ms, taken, beyond = self._search(group, waiting, start, most)
            are_enough = 2 * _sum(taken) >= most
            held_up = self._held_up(waiting, taken, start, low_ms)
            if not held_up and not are_enough:
                held_up = self._held_up(waiting, beyond, start, low_ms + 1)
            if not held_up:
                break
            self._read |= {place: RecordTimes(place, start[place], self.read_times) for place in held_up}
        last_ms, _ = self._cuts.get(group, (0, 0))
        self._cuts[group] = max(low_ms, 0), max(low_ms - last_ms, 1) if last_ms else 1000
        return taken if are_enough else _of_one_time(group, taken, beyond, most)

    def _search(self, group: TopicGroup, waiting: Counts, start: Offsets, most: int) -> tuple[int, Counts, Counts]:
        """A time, how many records are older, and how many than a later time, of which there are too many."""
        last_ms, step_ms = self._cuts.get(group, (0, _FIRST_STEP_MS))
        low_ms, taken = -1, dict.fromkeys(waiting, 0)
        high_ms, beyond = _LATEST_MS, waiting
        time_ms = last_ms + step_ms
        while high_ms - low_ms > 1 and 2 * _sum(taken) < most:
            found = self._older_than(time_ms, group, waiting, start, most)
            if _sum(found) > most:
                high_ms, beyond = time_ms, found
            else:
                low_ms, taken = time_ms, found
            if high_ms == _LATEST_MS:
                step_ms *= 2
                time_ms = min(low_ms + step_ms, _LATEST_MS - 1)
            elif low_ms < last_ms < high_ms:  # nearly always nothing is older than what was read last
                time_ms = last_ms
            else:
                time_ms = (low_ms + high_ms) // 2
        return low_ms, taken, beyond

    def _older_than(self, time_ms: int, group: TopicGroup, waiting: Counts, start: Offsets, most: int) -> Counts:
        """How many records of each partition are older than a time; of those that are read, no more than show that
        there are more than `most`.
        """
        looked_up = [place for place in waiting if place not in self._read]
        found = self.offsets_at(looked_up, time_ms) if looked_up else {}
        counts = {
            place: min(max(found[place] - start[place], 0), waiting[place]) if place in found else waiting[place]
            for place in looked_up
        }
        for place in _tables_first(group, waiting.keys() & self._read.keys()):
            begin, room = start[place], max(0, most + 1 - _sum(counts))
            counts[place] = self._read[place].first_at(time_ms, begin, room, begin + waiting[place]) - begin
        return counts

    def _held_up(self, waiting: Counts, taken: Counts, start: Offsets, time_ms: int) -> list[TopicAndPartition]:
        """The partitions whose rest waits for a record that is ahead of its place."""
        looks = {}
        for place, count in waiting.items():
            begin = start[place]
            at, end = begin + taken[place], begin + count
            known_at, until_ms = self._in_order.get(place, (-1, 0))
            if at < end and place not in self._read and (known_at != at or time_ms > until_ms):
                looks[place] = at, min(at + LOOKAHEAD, end)
        times = self.read_times(looks) if looks else {}
        for place, (at, end) in looks.items():
            if times[place] and end == at + LOOKAHEAD:  # of fewer records more may come
                self._in_order[place] = at, times[place][0][1]
        return [place for place in looks if is_held_up(times[place], time_ms)]


def _of_one_time(group: TopicGroup, taken: Counts, beyond: Counts, most: int) -> Counts:
    """The same where too many records are of one time: those of tables come first, as within a batch."""
    taken = dict(taken)
    for place in _tables_first(group, taken):
        taken[place] += min(most - _sum(taken), beyond[place] - taken[place])
    return taken


def _tables_first(group: TopicGroup, places: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    return sorted(places, key=lambda place: (group.topics.index(place[0]), place))


def _in_proportion(waiting: Counts, most: int) -> Counts:
    total = max(1, _sum(waiting))
    return {place: min(count, -(-count * most // total)) for place, count in waiting.items()}


def _sum(counts: Counts) -> int:
    return sum(counts.values())
