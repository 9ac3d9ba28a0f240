"""The record that a store's owner is processing: the source of changelog timestamps and of the store's position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from storekeeper.trace_context import trace_in

Header = tuple[str, bytes]
InputPosition = dict[str, dict[str, int]]
"""By topic and partition (as text) the offset of the last record that wrote to the store."""

NO_TIMESTAMP_MS = -1
POSITION_KEY = b"input-position"


Origin = tuple[str, int, int, Sequence[Header], bytes | None]
"""The record that something comes from: topic, partition, offset, headers, `traceparent`.

The topic is empty and the offset -1 if its place is not known, or if there is no such record. A plain tuple, as caches
make one for each record.
"""


class RecordContext:
    """The current input record, shared by the stores of one task. Not thread-safe: one per writer.

    Attributes:
        timestamp_ms: the record's timestamp, epoch milliseconds; -1 if unknown. Changelog records get it.
        headers: headers for changelog records.
        trace: the `traceparent` of the record; `untraced` if it has none.
        untraced: the `trace` of a record without one: None, or empty once a record of the batch has had one.
        moves: how often `move_to` was called, so that a store sees that its position is out of date.
    """

    __slots__ = ("headers", "moves", "offset", "partition", "timestamp_ms", "topic", "trace", "untraced")

    def __init__(self) -> None:
        self.timestamp_ms = NO_TIMESTAMP_MS
        self.headers: Sequence[Header] = ()
        self.trace: bytes | None = None
        self.untraced: bytes | None = None
        self.topic = ""
        self.partition = 0
        self.offset = -1
        self.moves = 0

    def move_to(self, topic: str, partition: int, offset: int, timestamp_ms: int | None = None) -> None:
        """Sets the record that the following writes come from."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        if timestamp_ms is not None:
            self.timestamp_ms = timestamp_ms
        self.moves += 1

    def trace_in(self, headers: Sequence[Header]) -> bytes | None:
        """The `trace` of a record with these headers."""
        found = trace_in(headers)
        if found is not None:
            self.untraced = b""
        return found or self.untraced

    @property
    def origin(self) -> Origin:
        """The record under way, to come back to it."""
        return self.topic, self.partition, self.offset, self.headers, self.trace

    def come_from(self, origin: Origin) -> None:
        """What follows comes from this record, and not from the one that let it go."""
        self.topic, self.partition, self.offset, self.headers, trace = origin
        self.trace = trace or self.untraced

    def come_from_headers(self, headers: Sequence[Header]) -> None:
        """What follows comes from a record of which the headers are known, and nothing else."""
        self.topic, self.offset, self.headers = "", -1, headers
        self.trace = self.trace_in(headers) if headers else self.untraced

    def forget_traces(self) -> None:
        """Begins a batch: none of its records had a trace yet."""
        self.trace = self.untraced = None

    def advanced(self, position: Mapping[str, Mapping[str, int]]) -> InputPosition:
        """A copy of `position` that includes the current record; no partition ever moves back."""
        return merged_positions(position, {self.topic: {str(self.partition): self.offset}})


def merged_positions(one: Mapping[str, Mapping[str, int]], two: Mapping[str, Mapping[str, int]]) -> InputPosition:
    """The further of both positions in every partition, as a copy."""
    result = {topic: dict(partitions) for topic, partitions in one.items()}
    for topic, partitions in two.items():
        offsets = result.setdefault(topic, {})
        for partition, offset in partitions.items():
            offsets[partition] = max(offsets.get(partition, -1), offset)
    return result


def encode_position(position: Mapping[str, Mapping[str, int]]) -> bytes:
    """The position as JSON: `{"topic": {"0": 41}}`."""
    return orjson.dumps(position, option=orjson.OPT_SORT_KEYS)


def decode_position(data: bytes | None) -> InputPosition:
    """The position from its JSON, empty if there is none."""
    return {} if data is None else orjson.loads(data)
