"""The order in which a task takes the records of a batch. The engine and the test driver both use it.

Records of one *run* keep their order: those of one partition of a topic; behind a repartition, those of one task
before it. Runs are merged by time. Records of one time go by topic, those of tables first, then by number of the run.
So the order is the same in each attempt of a batch, whatever order records come in.

A record that its source refuses, or that operators fail on, must not hold up those behind it: the batch is run again
in the order of the others, where that differs; see `Ordered.without`.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from operator import itemgetter

from storekeeper.stores.record_context import Header
from storekeeper.topology.node import GraphNode, TableNode
from storekeeper.topology.operators.source import Source
from storekeeper.topology.records import NOWHERE, Moved, OriginOf, Output, Place, RecordFields
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.times import LATEST_MS, epoch_ms

UPSTREAM = "storekeeper-task"
"""The header of a record in a repartition topic: the partition of the task that wrote it; then, if it is known, the
topic, partition and offset of the source record that it comes from. With spaces between them.
"""

Run = Iterable[Sequence[RecordFields]]
"""The records of one run in their order, in parts. It must be possible to go through them twice."""

_RUN, _OFFSET, _PLACE = itemgetter(0, 1), itemgetter(2), itemgetter(0, 1, 2)
_NO_TIME_MS = -1


def runs_of(records: Iterable[RecordFields]) -> dict[tuple[str, int], Run]:
    """Records of one task and batch by topic and number of their run. A record behind a repartition has the number of
    the task before as its partition.
    """
    runs: dict[tuple[str, int], list[RecordFields]] = {}
    for record in records:
        runs.setdefault(_RUN(record), []).append(record)
    return {name: [sorted(run, key=_OFFSET)] for name, run in runs.items()}


class Ordered:
    """All records of one task and batch in the order in which it takes them, part by part.

    No more of a run than a part is held at a time.
    """

    def __init__(
        self,
        runs: Mapping[tuple[str, int], Run],
        sub_topology: SubTopology,
        left_out: frozenset[Place] = frozenset(),
    ) -> None:
        """Takes runs by topic and number, and the places of records that are left out of them."""
        self._runs, self._sub, self._left_out = runs, sub_topology, left_out

    def __iter__(self) -> Iterator[Sequence[RecordFields]]:
        """The records in parts. They are read anew each time."""
        ranked = reading_order(self._sub)
        ranks = {source.topic: rank for rank, source in enumerate(ranked)}
        names = sorted(self._runs, key=lambda name: (ranks[name[0]], name[1]))
        return _merged([_Head(map(self._kept, self._runs[name]), _time_of(ranked[ranks[name[0]]])) for name in names])

    def leaving_out(self, places: frozenset[Place]) -> Ordered:
        """The records without those of some places, in an order of their own."""
        return Ordered(self._runs, self._sub, self._left_out | places)

    def reaching(self, part: SubTopology) -> Ordered:
        """The records that a part of the sub-topology takes."""
        topics = {source.topic for source in part.sources}
        return Ordered({name: run for name, run in self._runs.items() if name[0] in topics}, part, self._left_out)

    def without(self, places: frozenset[Place]) -> Ordered | None:
        """The same; None if the order of the others is the one here."""
        alone = self.leaving_out(places)
        if len(self._runs) < 2:
            return None
        here = (place for place in map(_PLACE, chain.from_iterable(self)) if place not in places)
        return None if all(map(operator.eq, here, map(_PLACE, chain.from_iterable(alone)))) else alone

    def _kept(self, part: Sequence[RecordFields]) -> Sequence[RecordFields]:
        left_out = self._left_out
        return [record for record in part if record[:3] not in left_out] if left_out else part


class _Head:
    """What is at hand of a run: records, and when each is due. None is due before the one in front of it."""

    def __init__(self, parts: Iterator[Sequence[RecordFields]], time_of: Callable[[RecordFields], int]) -> None:
        self.parts, self._time_of, self._latest = parts, time_of, _NO_TIME_MS
        self.records: Sequence[RecordFields] = ()
        self.due: list[int] = []

    def fill(self) -> bool:
        """Reads the next part if none is at hand; whether there is one."""
        while not self.records:
            part = next(self.parts, None)
            if part is None:
                return False
            self.records = part
        return True

    def is_due(self) -> list[int]:
        """When each record at hand is due."""
        if not self.due:
            # A record that is older than the one before it waits for that one: no run changes its order.
            self.due = list(accumulate(map(self._time_of, self.records), max, initial=self._latest))[1:]
            self._latest = self.due[-1]
        return self.due

    def take(self, count: int) -> Sequence[RecordFields]:
        """The first records at hand."""
        taken, self.records, self.due = self.records[:count], self.records[count:], self.due[count:]
        return taken


def _merged(heads: list[_Head]) -> Iterator[Sequence[RecordFields]]:
    heads = [head for head in heads if head.fill()]
    while len(heads) > 1:
        # Nothing that is still to be read comes before the last record at hand of the run that has the earliest.
        bound, first = min((head.is_due()[-1], rank) for rank, head in enumerate(heads))
        due: list[int] = []
        records: list[RecordFields] = []
        for rank, head in enumerate(heads):
            among = bisect_right if rank <= first else bisect_left
            count = among(head.due, bound)
            due += head.due[:count]
            records += head.take(count)
        yield [records[place] for place in sorted(range(len(records)), key=due.__getitem__)]
        heads = [head for head in heads if head.fill()]
    for head in heads:
        yield head.records
        yield from head.parts


def reading_order(sub_topology: SubTopology) -> list[Source]:
    """The sources in the order in which records of one time are taken.

    Those whose records only become rows of tables are first, then the others; both in the order of declaration.
    """
    return sorted(sub_topology.sources, key=lambda source: not _only_makes_rows(source))


def with_upstream(
    outputs: Iterable[Moved], partition: int, origin_of: OriginOf, repartitions: Container[str]
) -> Iterator[Output]:
    """Outputs for a repartition topic, with the partition of the task that they come from, and their origin.

    Args:
        outputs: what the task passes on.
        partition: of the task.
        origin_of: finds where a record of the task comes from.
        repartitions: the topics whose records come from others; all others are sources.
    """
    task, place, prefix = b"%d" % partition, ("", NOWHERE), b""
    for key, value, timestamp_ms, headers, at_topic, at_partition, at_offset in outputs:
        topic, number, offset = at_topic, at_partition, at_offset
        if topic in repartitions:
            topic, number, offset = origin_of((topic, number, offset))
        if topic != place[0] or number != place[1]:
            place, prefix = (topic, number), b"%b %b %d " % (task, topic.encode(), number)
        mark = task if offset == NOWHERE else b"%b%d" % (prefix, offset)
        yield key, value, timestamp_ms, [*headers, (UPSTREAM, mark)]


def origin_in(record: RecordFields) -> Place | None:
    """The place of the source record that a record of a repartition topic comes from; None if it is not known."""
    mark = _mark_of(record[6])
    return (mark[1].decode(), int(mark[2]), int(mark[3])) if len(mark) == 4 else None


def by_upstream(record: RecordFields) -> RecordFields:
    """A record of a repartition topic, with the number of the task that wrote it as its partition.

    One without that header keeps its own: somebody else wrote it.
    """
    topic, _, offset, timestamp_ms, key, value, headers = record
    mark = _mark_of(headers)
    return (topic, int(mark[0]), offset, timestamp_ms, key, value, headers[:-1] or ()) if mark else record


def _mark_of(headers: Sequence[Header]) -> Sequence[bytes]:
    """The parts of a record's last header if it is `UPSTREAM`, which only tasks write."""
    name, content = headers[-1] if headers else ("", None)
    return content.split() if name == UPSTREAM and content is not None else ()


def _only_makes_rows(node: GraphNode) -> bool:
    children = [child for child, _ in node.children]
    return bool(children) and all(
        isinstance(child, TableNode) or (len(child.parents) == 1 and _only_makes_rows(child)) for child in children
    )


def _time_of(source: Source) -> Callable[[RecordFields], int]:
    """What gives the time of a source's record: that of the event, where the topology says how to get it."""
    return _own_time if source.timestamps is None else partial(_event_time, source)


def _own_time(record: RecordFields) -> int:
    time_ms = record[3]
    return time_ms if time_ms <= LATEST_MS else _NO_TIME_MS


def _event_time(source: Source, record: RecordFields) -> int:
    _, _, _, _, key_bytes, value_bytes, _ = record
    try:
        key = None if key_bytes is None else source.key_serde.deserialize(key_bytes)
        value = None if value_bytes is None else source.value_serde.deserialize(value_bytes)
        if value is not None and source.timestamps is not None:
            return epoch_ms(source.timestamps(key, value))
    except Exception:
        return _NO_TIME_MS
    return _NO_TIME_MS if source.refuses_nulls else _own_time(record)
