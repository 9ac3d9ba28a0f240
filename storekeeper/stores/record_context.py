"""The record that a task is processing: the source of changelog timestamps."""

from __future__ import annotations

from collections.abc import Sequence

from storekeeper.trace_context import trace_in

Header = tuple[str, bytes | None]

NO_TIMESTAMP_MS = -1


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
    """

    __slots__ = ("headers", "offset", "partition", "timestamp_ms", "topic", "trace", "untraced")

    def __init__(self) -> None:
        self.timestamp_ms = NO_TIMESTAMP_MS
        self.headers: Sequence[Header] = ()
        self.trace: bytes | None = None
        self.untraced: bytes | None = None
        self.topic = ""
        self.partition = 0
        self.offset = -1

    def trace_in(self, headers: Sequence[Header]) -> bytes | None:
        """The `trace` of a record with these headers."""
        trace = trace_in(headers)
        if trace is not None:
            self.untraced = b""
        return trace or self.untraced

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
