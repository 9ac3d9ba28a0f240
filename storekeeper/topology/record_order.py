"""The order in which a task takes the records of a batch. The engine and the test driver both use it.

Records of one *run* keep their order: those of one partition of a topic; behind a repartition, those of one task
before it. Runs are merged by time, for which records that their source refuses don't count. Records of one time go by
topic, those of tables first, then by number of the run.
So the order is the same in each attempt of a batch, whatever order records come in.

A record that operators fail on must not hold up those behind it either: the batch is run again in the order of the
others, where that differs; see `Ordered.without`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from itertools import accumulate
from operator import itemgetter

from storekeeper.topology.node import GraphNode, TableNode
from storekeeper.topology.operators.source import Source
from storekeeper.topology.records import NOWHERE, Moved, OriginOf, Output, Place, RecordFields
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.times import LATEST_MS, epoch_ms

UPSTREAM = "storekeeper-task"
"""The header of a record in a repartition topic: the partition of the task that wrote it; then, if it is known, the
topic, partition and offset of the source record that it comes from. With spaces between them.
"""

_RUN, _OFFSET = itemgetter(0, 1), itemgetter(2)
_NO_TIME_MS = -1


def in_order(records: Iterable[RecordFields], sub_topology: SubTopology) -> list[RecordFields]:
    """All records of one task and batch, in the order in which it takes them.

    Args:
        records: in any order. A record behind a repartition has the number of the task before as its partition.
        sub_topology: what the task runs.
    """
    runs: dict[tuple[str, int], list[RecordFields]] = {}
    for record in records:
        runs.setdefault(_RUN(record), []).append(record)
    ranked = reading_order(sub_topology)
    ranks = {source.topic: rank for rank, source in enumerate(ranked)}
    merged: list[RecordFields] = []
    due: list[int] = []
    for name in sorted(runs, key=lambda name: (ranks[name[0]], name[1])):
        run = sorted(runs[name], key=_OFFSET)
        merged += run
        # A record that is older than the one before it waits for that one: no run changes its order.
        due += accumulate(map(_time_of(ranked[ranks[name[0]]]), run), max)
    return [merged[place] for place in sorted(range(len(merged)), key=due.__getitem__)]


class Ordered:
    """All records of one task and batch, in the order in which it takes them."""

    def __init__(self, records: Iterable[RecordFields], sub_topology: SubTopology) -> None:
        """Puts them in order; see `in_order`."""
        self._sub = sub_topology
        self._records = in_order(records, sub_topology)

    def __iter__(self) -> Iterator[list[RecordFields]]:
        """One part with all of them."""
        yield self._records

    def without(self, places: Container[Place]) -> Ordered | None:
        """The records without those of some places, in an order of their own; None if that is the order here."""
        rest = [record for record in self._records if record[:3] not in places]
        alone = Ordered(rest, self._sub)
        return None if all(map(operator.is_, rest, alone._records)) else alone


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
    headers = record[6]
    mark = headers[-1][1].split() if headers and headers[-1][0] == UPSTREAM else ()
    return (mark[1].decode(), int(mark[2]), int(mark[3])) if len(mark) == 4 else None


def by_upstream(record: RecordFields) -> RecordFields:
    """A record of a repartition topic, with the number of the task that wrote it as its partition.

    One without that header keeps its own: somebody else wrote it.
    """
    topic, _, offset, timestamp_ms, key, value, headers = record
    if not headers or headers[-1][0] != UPSTREAM:
        return record
    return topic, int(headers[-1][1].split(b" ", 1)[0]), offset, timestamp_ms, key, value, headers[:-1] or ()


def _only_makes_rows(node: GraphNode) -> bool:
    children = [child for child, _ in node.children]
    return bool(children) and all(
        isinstance(child, TableNode) or (len(child.parents) == 1 and _only_makes_rows(child)) for child in children
    )


def _time_of(source: Source) -> Callable[[RecordFields], int]:
    """What gives the time of a source's record: that of the event, where the topology says how to get it.

    A record that the source refuses has none: it must not hold up those behind it.
    """
    return _own_time if source.timestamps is None else partial(_event_time, source)


def _own_time(record: RecordFields) -> int:
    time_ms = record[3]
    return time_ms if time_ms <= LATEST_MS else _NO_TIME_MS


def _event_time(source: Source, record: RecordFields) -> int:
    _, _, _, timestamp_ms, key_bytes, value_bytes, _ = record
    try:
        key = None if key_bytes is None else source.key_serde.deserialize(key_bytes)
        value = None if value_bytes is None else source.value_serde.deserialize(value_bytes)
        if source.check is not None:
            source.check(key, value, timestamp_ms)
        if value is not None and source.timestamps is not None:
            return epoch_ms(source.timestamps(key, value))
    except Exception:
        return _NO_TIME_MS
    return _NO_TIME_MS if source.refuses_nulls else _own_time(record)
