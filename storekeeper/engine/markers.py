"""A task's last committed batch: one record in the same transaction as its output.

Topic `<app>-gen-<n>-<slot>-markers`, compacted, created by the app itself. Each task of a sub-topology has its own
partition: an open transaction of another task would hide the records behind it.

The key is the query's id, the value JSON: {"batch": 17, "source": {"pos": {"0": [100, 200]}},
"forwarded": {"pos-by-card-repartition": [96, "5f1d…"]}, "progress": {…}}. Each checkpoint has a new query id, so
markers of an abandoned checkpoint don't count for a new one's batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

import orjson

from storekeeper.apps.errors import LostChangelogError
from storekeeper.changelog.bounded_reader import committed_bounds, read_range, read_topic, stable_bounds
from storekeeper.changelog.headers import SourceRanges
from storekeeper.errors import ChangelogError
from storekeeper.kafka.connection import Kafka

MARKER_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    # Only the newest marker of a task counts; small segments keep the topic as short as that allows.
    "segment.bytes": str(1024 * 1024),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}
_FIRST_STEP_BACK = 4
_AT_ONCE = 8
"""How many partitions are read at once: each takes a few round trips, and an app that starts waits for all."""

Passed = tuple[int, str]
"""How many records went to a shuffle, and a digest of their keys, values, times and destinations, in order."""

SourceSpans = Mapping[str, Mapping[int, Sequence[tuple[int, int]]]]
"""Spans of offsets, each with its start and its end, by topic and partition."""


def spans_of(places: Iterable[tuple[str, int, int]]) -> SourceSpans:
    """Topics, partitions and offsets as spans."""
    by_topic: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for topic, partition, offset in sorted(places):
        spans = by_topic.setdefault(topic, {}).setdefault(partition, [])
        if spans and spans[-1][1] == offset:
            spans[-1] = (spans[-1][0], offset + 1)
        else:
            spans.append((offset, offset + 1))
    return by_topic


def places_in(spans: SourceSpans) -> frozenset[tuple[str, int, int]]:
    """The topics, partitions and offsets in spans."""
    return frozenset(
        (topic, partition, offset)
        for topic, partitions in spans.items()
        for partition, places in partitions.items()
        for start, end in places
        for offset in range(start, end)
    )


@dataclass(frozen=True, slots=True)
class Marker:
    """The last committed batch of a task.

    Attributes:
        batch_id: the batch.
        source: the offset ranges of the input that reached it.
        forwarded: what it passed on to shuffles, by their topic.
        progress: what the task needs to continue after it, as JSON.
        left_out: the offsets of records, from and to, that became dead letters for an operator which no replay runs:
            a replay must leave them out, too. By topic and partition.
        logs: by changelog, an offset that it had reached in the task's partition.
        changes: by changelog, how many changes the generation's batches have written to the task's partition.
    """

    batch_id: int
    source: SourceRanges
    forwarded: Mapping[str, Passed]
    progress: bytes
    left_out: SourceSpans = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The marker's value."""
        fields: dict[str, object] = {
            "batch": self.batch_id,
            "source": self.source,
            "forwarded": self.forwarded,
            "progress": orjson.Fragment(self.progress),
        }
        if self.left_out:
            fields["left_out"] = self.left_out
        if self.logs:
            fields["logs"] = self.logs
        if self.changes:
            fields["changes"] = self.changes
        return orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads a marker's value.

        Raises:
            ChangelogError: the value is not a marker.
        """
        try:
            content = orjson.loads(value)
            source = {
                topic: {int(partition): (start, end) for partition, (start, end) in ranges.items()}
                for topic, ranges in content["source"].items()
            }
            forwarded = {topic: (int(count), str(digest)) for topic, (count, digest) in content["forwarded"].items()}
            left_out = {
                topic: {int(partition): [(start, end) for start, end in spans] for partition, spans in parts.items()}
                for topic, parts in content.get("left_out", {}).items()
            }
            progress = orjson.dumps(content["progress"])
            logs, changes = (
                {topic: int(number) for topic, number in content.get(name, {}).items()} for name in ("logs", "changes")
            )
            return cls(int(content["batch"]), source, forwarded, progress, left_out, logs, changes)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = "a record of a markers topic is not a marker: is something else writing to it?"
            raise ChangelogError(msg) from error


def read_marker(kafka: Kafka, topic: str, partition: int, key: bytes) -> Marker | None:
    """The newest committed marker with that key in a task's partition; None if there is none.

    The task's transactional id must be initialised before, so that no transaction is open in the partition.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        OpenTransactionError: another writer's transaction hides it: an older marker would have a batch written twice.
        LostChangelogError: there is none, and records of the topic were deleted: it may have been one of them.
    """
    start, end = committed_bounds(kafka, topic, partition)
    value = _newest(kafka, (topic, partition), (start, end), key)
    if value is None and start > 0:  # compaction doesn't move the first offset
        raise LostChangelogError(
            f"topic {topic} begins at offset {start} in partition {partition}: its first records were deleted, so what "
            "the task has committed is not known. Start a new generation, which reads the input again "
            "(docs/how-to/back-up-and-recover.md)"
        )
    return value


def known_markers(kafka: Kafka, partitions: Sequence[tuple[str, int]], key: bytes) -> dict[tuple[str, int], Marker]:
    """The newest markers with that key in partitions of markers topics, as far as no open transaction hides them.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
    """

    def newest(where: tuple[str, int]) -> Marker | None:
        return _newest(kafka, where, stable_bounds(kafka, *where), key)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        values = zip(partitions, pool.map(newest, partitions), strict=True)
        return {where: marker for where, marker in values if marker is not None}


def _newest(kafka: Kafka, where: tuple[str, int], bounds: tuple[int, int], key: bytes) -> Marker | None:
    start, end = bounds
    step, begin = _FIRST_STEP_BACK, end
    while begin > start:
        stop, begin = begin, max(start, end - step)
        messages = read_range(kafka, *where, begin, stop)
        values = [message.value() or b"" for message in messages if message.key() == key]
        if values:
            return Marker.decode(values[-1])
        step *= 8
    return None


def markers_after(kafka: Kafka, topic: str, query_id: str, batch_id: int) -> dict[int, Marker] | None:
    """The newest marker of each task up to a batch, by partition; None if a task has only those of later batches."""
    newest: dict[int, Marker | None] = {}
    for message in read_topic(kafka, topic):
        marker, partition = Marker.decode(message.value() or b""), message.partition() or 0
        if message.key() == query_id.encode():
            newest[partition] = marker if marker.batch_id <= batch_id else newest.get(partition)
    found = {partition: marker for partition, marker in newest.items() if marker is not None}
    return found if len(found) == len(newest) else None
