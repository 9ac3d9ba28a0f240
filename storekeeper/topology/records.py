"""What goes into a task and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from storekeeper.stores.record_context import Header

Output = tuple[bytes | None, bytes | None, int, Sequence[Header]]
"""Key, value, timestamp in epoch ms, headers. A plain tuple: one is made for every record written."""

Outputs = Mapping[str, Sequence[Output]]
"""Outputs by topic, those of one topic in order."""


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
        record: as it was read. A row that had waited in the app, and failed when it was released, has no topic.
        reason: why, without any of the record's content.
        error_class: the name of the error's class.
        operator: the operator that failed; that of its topic if the record was refused there.
    """

    record: Record
    reason: str
    error_class: str
    operator: str = ""


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
