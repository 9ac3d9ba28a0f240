"""Scans of what is committed in a changelog, partition by partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from confluent_kafka import Message

from storekeeper.changelog.bounded_reader import committed_bounds, first_offset, read_range, stable_bounds
from storekeeper.changelog.committed_ends import committed_ends
from storekeeper.changelog.headers import BATCH_ID, GENERATION
from storekeeper.changelog.log_record import CLEANUP, LogRecord
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings
from storekeeper.changelog.skipped import SkippedRecord, headers_of, skip_reason
from storekeeper.errors import ChangelogError
from storekeeper.kafka.connection import Kafka

_TIMEOUT_S = 30.0


class Changelog:
    """A changelog topic as `read_committed` readers see it. Safe from any thread.

    Methods raise `BrokerUnavailableError` when the broker doesn't answer.
    """

    def __init__(self, kafka: Kafka, topic: str) -> None:
        """Asks the broker about the topic.

        Raises:
            ChangelogError: it doesn't exist.
        """
        self._kafka = kafka
        reader = ChangelogReader(ReaderSettings(kafka, timeout_s=_TIMEOUT_S))
        try:
            self.facts = reader.facts(topic)
        finally:
            reader.close()
        self.topic = topic

    @property
    def partitions(self) -> range:
        """The partitions' numbers."""
        return range(self.facts.partitions)

    def first(self, partition: int) -> int:
        """The first offset."""
        return first_offset(self._kafka, self.topic, partition)

    def committed(self, partition: int) -> tuple[int, int]:
        """The first offset, and the end of what is committed.

        Raises:
            OpenTransactionError: a transaction stays open, and may hide committed records.
        """
        return committed_bounds(self._kafka, self.topic, partition)

    def committed_ends(self) -> dict[int, int]:
        """The end of what is committed in each partition, all looked up at once.

        Raises:
            OpenTransactionError: a transaction stays open, and may hide committed records.
        """
        ends = committed_ends(self._kafka, [(self.topic, partition) for partition in self.partitions])
        return {partition: end for (_, partition), end in ends.items()}

    def stable_end(self, partition: int) -> int:
        """Before the first record of a transaction that is open. For those who read on later from there."""
        return stable_bounds(self._kafka, self.topic, partition)[1]

    def scan(self, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """The committed records with `start <= offset < end`, in their order.

        One that is not a row is a tombstone, as for every reader of a changelog; one without a key is left out.

        Raises:
            ChangelogError: the log begins behind `start`: it was cut off or recreated.
        """
        first = self.first(partition)
        if start < first:
            msg = f"{self.topic}-{partition} begins at {first}, behind {start}: the topic was recreated or is cut off"
            raise ChangelogError(msg)
        yield from log_records(read_range(self._kafka, self.topic, partition, start, end))

    def is_whole(self, partition: int, start: int, end: int) -> bool:
        """Whether the log still has all records with `start <= offset < end`: that compaction has removed none.

        `start` and `end` are where transactions end. False also where nothing shows it.
        """
        written = read_range(self._kafka, self.topic, partition, start, end, isolation="read_uncommitted")
        committed = (one.offset() or 0 for one in read_range(self._kafka, self.topic, partition, start, end))
        return is_whole(written, committed, start, end)

    def skipped(self, partition: int, start: int, end: int) -> Iterator[SkippedRecord]:
        """The committed records with `start <= offset < end` that are not rows."""
        for message in read_range(self._kafka, self.topic, partition, start, end):
            timestamp_ms = message.timestamp()[1]
            reason = skip_reason(message.key(), message.value(), timestamp_ms, headers_of(message))
            if reason is not None:
                yield SkippedRecord(message.offset() or 0, timestamp_ms, reason)


def log_records(messages: Iterable[Message]) -> Iterator[LogRecord]:
    """Messages of a changelog as records. One that is not a row is a tombstone; one without a key is left out."""
    for message in messages:
        key, value, headers, timestamp_ms = message.key(), message.value(), headers_of(message), message.timestamp()[1]
        if key is None:
            continue
        if skip_reason(key, value, timestamp_ms, headers) is not None:
            value, headers = None, ()
        yield LogRecord(message.offset() or 0, timestamp_ms, key, value, headers)


def is_whole(written: Iterable[Message], committed: Iterable[int], start: int, end: int) -> bool:
    """Whether each offset of a range has a record, or the mark of a transaction's end.

    A mark has an offset, and no reader sees it. So one offset may be missing where a batch ends, and no other. Beside a
    clean-up's records none may: its transactions and those of the app overlap.

    Args:
        written: the records of the range, also those that were not committed.
        committed: the offsets of those that were.
        start: the first offset.
        end: the last one, exclusive.
    """
    there, next_committed = iter(committed), -1
    reached, before = start, None
    for message in written:
        offset, headers = message.offset() or 0, dict(headers_of(message))
        while next_committed < offset:
            next_committed = next(there, end)
        batch = (next_committed == offset, *(headers.get(name) for name in (GENERATION, BATCH_ID, CLEANUP)))
        has_mark = before is not None and before != batch and before[-1] is None and batch[-1] is None
        if offset - reached > has_mark:
            return False
        reached, before = offset + 1, batch
    return end - reached <= (before is not None)
