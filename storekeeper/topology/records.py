"""What goes into a task, between its tables, and out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

import msgspec

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import Header

Output = tuple[bytes | None, bytes | None, int, Sequence[Header]]
"""Key, value, timestamp in epoch ms, headers. A plain tuple: one is made for every record written."""

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset of a record."""

NOWHERE = -1
"""Offset, and in a dead letter partition, of what has no place in a topic."""

OriginOf: TypeAlias = Callable[[Place], Place]
"""Finds the source record that a record of a task comes from: itself, unless a repartition is between them."""

Moved = tuple[bytes | None, bytes | None, int, Sequence[Header], str, int, int]
"""An output for a repartition, with the place of the record that was under way."""

Outputs = Mapping[str, Sequence[Any]]
"""By topic `Output`s, or `Moved` ones for a repartition; those of one topic in order."""


class Record(NamedTuple):
    """A record of a source or repartition topic. A None value is a tombstone on a table, no value on a stream."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


RecordFields = tuple[str, int, int, int, bytes | None, bytes | None, Sequence[Header]]
"""A record, or a plain tuple of its fields in their order. The engine passes tuples: one takes a third of the time."""


class StoreChange(NamedTuple):
    """The last change of one row in a batch: what goes to the store's changelog. A None value is a tombstone.

    The value has no timestamp in front: that is the changelog record's own. `trace` is the `traceparent` of the record
    that made the change.
    """

    store: str
    key: bytes
    value: bytes | None
    timestamp_ms: int
    trace: bytes | None = None


class DeadLetter(NamedTuple):
    """A record that could not be decoded or processed, or was refused, and why.

    Attributes:
        record: as it was read. A row that had waited in the app, and failed when it was released, has no topic. What
            an app writes out has, behind a repartition, the place of the record that it comes from; see `located`.
        reason: why, without any of the record's content.
        error_class: the name of the error's class.
        operator: the operator that failed; that of its topic if the record was refused there.
        behind: the topic of the repartition that the record is behind, once it is located.
    """

    record: Record
    reason: str
    error_class: str
    operator: str = ""
    behind: str = ""

    def located(self, origin_of: OriginOf) -> Self:
        """The letter of a record behind a repartition, with the place of the source record that it comes from."""
        record = self.record
        if record.offset == NOWHERE:
            return self
        topic, partition, offset = origin_of(record[:3])
        behind = "" if topic == record.topic else record.topic
        return self._replace(record=record._replace(topic=topic, partition=partition, offset=offset), behind=behind)


@dataclass(slots=True)
class Batch:
    """All that one batch of a task writes, in one transaction.

    Attributes:
        outputs: records for sink and repartition topics.
        changes: for the changelogs.
        dead_letters: records that could not be decoded or were refused.
        progress: what the task needs to go on after this batch: stream times and timers. Write it with the marker.
    """

    outputs: Outputs = field(default_factory=dict)
    changes: list[StoreChange] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    progress: bytes = b"{}"


K = TypeVar("K")
V = TypeVar("V")


class Change(msgspec.Struct, Generic[V], frozen=True, gc=False):
    """One row's new value and, where the table sends old values, the one before it.

    A None `new` is a tombstone: the row is gone. A None `old` means that there was no row, or that the table doesn't
    send old values.
    """

    new: V | None
    old: V | None = None


Forward = Callable[[K, Change[V], int], None]
"""Takes a change of a table's row: key, change, timestamp in epoch ms."""


def value_of(row: ValueAndTimestamp[V] | None) -> V | None:
    """The value of a row, or None if there is no row."""
    return None if row is None else row.value
