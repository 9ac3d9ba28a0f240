"""A changelog while keys are erased from it: deleting their rows, and having its cleaner remove their records.

The cleaner removes a record once a newer one of its key is in a closed segment, and is older than the topic's
`min.compaction.lag.ms`. It removes a deletion after `delete.retention.ms`. Neither time is shortened: histories need
the first, and copies that are away the second, or the rows would come back with them. What an erasure does is to close
the segment, and to have the cleaner begin as soon as it may, however little there is to clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from storekeeper.changelog.bounded_reader import read_parts, read_range
from storekeeper.changelog.log_record import CleanupAction, LogRecord, cleanup_headers
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.conditional_write import ConditionalWriter, KafkaTentativeLog
from storekeeper.clock import Clock
from storekeeper.engine.runtime.topics import Topics
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.kafka.connection import Kafka

_CHUNK_RECORDS = 500
_PASSES = 5
_SEGMENT_MS = 1000
"""A segment is closed by the next record that is this much younger than its first."""
_POLL_S = 1.5
_LOOKED_AT = 50
_NUDGE = b"storekeeper-erasure"
"""The key of records that close segments. Their transactions are aborted: no reader sees them."""
_LAG, _LONGEST_LAG, _SEGMENT = "min.compaction.lag.ms", "max.compaction.lag.ms", "segment.ms"


class Place(NamedTuple):
    """A record of a key: where it is, and whether it holds a value."""

    partition: int
    offset: int
    timestamp_ms: int
    row_key: bytes
    is_row: bool


class ErasedLog(Protocol):
    """A changelog that keys are erased from."""

    def delete(self, keys: ErasedKeys, erasure_id: str) -> int:
        """Deletes the rows that are there; returns how many. A row that its app writes meanwhile may stay."""
        ...

    def places(self, keys: ErasedKeys) -> list[Place]:
        """Every record of the keys that a whole read finds, also those of aborted transactions."""
        ...

    def due_ms(self, places: Iterable[Place]) -> int:
        """From when on the cleaner may remove some of these records."""
        ...

    def compact(self, places: list[Place], changing: Callable[[Mapping[str, str | None] | None], None]) -> None:
        """Has the cleaner remove what it may, and waits for that for a limited time.

        Args:
            places: the records.
            changing: keeps the topic's own configuration while it is changed, None once it is as before.
        """
        ...

    def restore_config(self, config: Mapping[str, str | None]) -> None:
        """Sets the topic's configuration back to what a run that died had found."""
        ...

    def bounds(self) -> dict[int, tuple[int, int]]:
        """The first offset and the end of each partition."""
        ...


@dataclass
class KafkaErasedLog:
    """An `ErasedLog` in Kafka.

    Attributes:
        kafka: the Kafka.
        topic: the changelog.
        clock: for the records' own times, and for waiting.
        wait: waits for a number of seconds.
        wait_s: how long to wait for the cleaner.
        times: gives the time of a deletion that is written now.
    """

    kafka: Kafka
    topic: str
    clock: Clock
    wait: Callable[[float], object]
    wait_s: float
    times: Callable[[], int]

    def __post_init__(self) -> None:
        self.changelog = Changelog(self.kafka, self.topic)
        self._topics = Topics(self.kafka)

    def delete(self, keys: ErasedKeys, erasure_id: str) -> int:
        """See `ErasedLog`."""
        deleted = 0
        tentative = KafkaTentativeLog(self.kafka, self.topic)
        try:
            for partition in self.changelog.partitions:
                # A row may have been left alone because of a transaction that was aborted later: it is tried again.
                for _ in range(_PASSES):
                    written, left = self._delete(tentative, partition, keys, erasure_id)
                    deleted += written
                    if not left:
                        break
        finally:
            tentative.close()
        return deleted

    def _delete(
        self, tentative: KafkaTentativeLog, partition: int, keys: ErasedKeys, erasure_id: str
    ) -> tuple[int, int]:
        end, newest = self.changelog.stable_end(partition), dict[bytes | None, LogRecord]()
        for record in self.changelog.scan(partition, self.changelog.first(partition), end):
            if keys.holds(record.key):
                newest[record.key] = record
        rows = [record for record in newest.values() if record.value is not None]
        writer = ConditionalWriter(tentative.at(partition, end), lambda one: one.action_of(erasure_id) is not None)
        written = left = 0
        for start in range(0, len(rows), _CHUNK_RECORDS):
            deletions = [self._deletion(one, erasure_id) for one in rows[start : start + _CHUNK_RECORDS]]
            result = writer.write(deletions)
            written, left = written + result.records, left + len(result.touched)
        return written, left

    def _deletion(self, row: LogRecord, erasure_id: str) -> LogRecord:
        headers = cleanup_headers(row.headers, erasure_id, CleanupAction.DELETE, self.times())
        return LogRecord(0, self.clock.now_ms(), row.key, None, headers)

    def places(self, keys: ErasedKeys) -> list[Place]:
        """See `ErasedLog`."""
        found = []
        for partition, (first, end) in self.bounds().items():
            messages = read_range(self.kafka, self.topic, partition, first, end, isolation="read_uncommitted")
            for one in messages:
                key = one.key()
                if key is not None and keys.holds(key):
                    at_ms = one.timestamp()[1]
                    found.append(Place(partition, one.offset() or 0, at_ms, key, one.value() is not None))
        return found

    def bounds(self) -> dict[int, tuple[int, int]]:
        """See `ErasedLog`."""
        return {at: (self.changelog.first(at), self.changelog.stable_end(at)) for at in self.changelog.partitions}

    def due_ms(self, places: Iterable[Place]) -> int:
        """See `ErasedLog`."""
        places = list(places)
        newest_ms = max((place.timestamp_ms for place in places), default=0)
        if any(place.is_row for place in places):
            return newest_ms + self._lag_ms()
        return newest_ms + self.changelog.facts.delete_retention_ms

    def compact(self, places: list[Place], changing: Callable[[Mapping[str, str | None] | None], None]) -> None:
        """See `ErasedLog`."""
        own = self._topics.own_config(self.topic)
        before = {name: own.get(name) for name in (_SEGMENT, _LONGEST_LAG)}
        wanted = {_SEGMENT: str(_SEGMENT_MS), _LONGEST_LAG: str(max(1, self._lag_ms()))}
        changing(before)
        try:
            self._topics.configure(self.topic, wanted)
            self._await_removal(places)
        finally:
            self.restore_config(before)
        changing(None)

    def restore_config(self, config: Mapping[str, str | None]) -> None:
        """See `ErasedLog`."""
        self._topics.configure(self.topic, config)

    def _await_removal(self, places: list[Place]) -> None:
        """Closes segments until none of the records is there, or the time is over; at least two times."""
        partitions = sorted({place.partition for place in places})
        is_due = self.clock.now_ms() >= self.due_ms(places)
        deadline_s, left = self.clock.monotonic_s() + (self.wait_s if is_due else 0), list(places)
        for turn in range(1 << 30):
            self.wait(_POLL_S)
            self._nudge(partitions)
            if is_due:
                left = [*filter(self._is_there, left[:_LOOKED_AT]), *left[_LOOKED_AT:]]
            if not left or (turn and self.clock.monotonic_s() >= deadline_s):
                return

    def _nudge(self, partitions: Iterable[int]) -> None:
        """Appends a record to each partition that nobody ever sees."""
        tentative = KafkaTentativeLog(self.kafka, self.topic)
        try:
            for partition in partitions:
                tentative.at(partition, 0).append([LogRecord(0, self.clock.now_ms(), _NUDGE, None)])
                tentative.abort()
        finally:
            tentative.close()

    def _is_there(self, place: Place) -> bool:
        end = place.offset + 1
        parts = read_parts(self.kafka, self.topic, place.partition, place.offset, end, isolation="read_uncommitted")
        return any(parts)

    def _lag_ms(self) -> int:
        return int(self._topics.setting(self.topic, _LAG))
