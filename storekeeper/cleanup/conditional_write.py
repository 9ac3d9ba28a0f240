"""Writing a record only if nobody else has written its key since: compare-and-write on a log that can't compare.

Kafka appends whatever it is given, so a tombstone for a row that its app refreshes at that moment would hide the
refreshed row. But Kafka has transactions, whose records get their offsets before anybody sees them:

1. Append the records in a transaction. Each has its final offset now, but is invisible.
2. Read everything in front of them, open transactions of others included.
3. A key that somebody wrote in front of our record: the comparison fails. Abort: nothing was ever visible. Begin again
   without those keys.
4. No such key: commit. Whatever was written behind our records replaces them, as it should.

So a record becomes visible if, and only if, no record of its key is in front of it that the caller didn't know of. No
lock, no pause of the app, no repair afterwards. A crash leaves an open transaction, which the broker or the next run
aborts. Foreign records whose own transaction is aborted later count as written: that errs on the safe side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from confluent_kafka import KafkaError, KafkaException, Message

from storekeeper.changelog.bounded_reader import read_range
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.scan import log_records
from storekeeper.errors import ChangelogError, StateError
from storekeeper.kafka.access import denial
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.names import cleanup_transaction


class TentativeLog(Protocol):
    """One partition of a log, written in transactions by us and by others."""

    def append(self, records: Sequence[LogRecord]) -> list[int]:
        """Begins a transaction, appends, and returns the offsets that the records got. Nobody sees them yet."""
        ...

    def commit(self) -> None:
        """Makes what was appended visible, all at once."""
        ...

    def abort(self) -> None:
        """Discards what was appended: it never becomes visible."""
        ...

    def read_to(self, end: int) -> Iterable[LogRecord]:
        """Every record from where the call before ended up to `end` (exclusive): open and aborted ones included."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a write: how many records are written, and the keys of those that are not."""

    records: int
    touched: frozenset[bytes]


@dataclass(slots=True)
class ConditionalWriter:
    """Writes to one partition. Not thread-safe.

    Attributes:
        log: the partition; its next read starts at the offset up to which the caller has read it.
        is_own: whether a record is this writer's own, such as one of an aborted attempt.
        touched: keys that others have written, each with the last offset.
    """

    log: TentativeLog
    is_own: Callable[[LogRecord], bool]
    touched: dict[bytes, int] = field(default_factory=dict)

    def write(self, records: Sequence[LogRecord]) -> Written:
        """Writes the records whose keys nobody else has written; returns once they are visible."""
        skipped: set[bytes] = set()
        left = list(records)
        while True:
            skipped |= {_key(record) for record in left if _key(record) in self.touched}
            left = [record for record in left if _key(record) not in skipped]
            if not left:
                return Written(0, frozenset(skipped))
            if self._written(left):
                return Written(len(left), frozenset(skipped))

    def _written(self, records: Sequence[LogRecord]) -> bool:
        try:
            offsets = self.log.append(records)
            places = {_key(record): offset for record, offset in zip(records, offsets, strict=True)}
            hit = self._observe(max(offsets) + 1, places)
        except BaseException:
            self.log.abort()
            raise
        if hit:
            self.log.abort()
            return False
        self.log.commit()
        return True

    def _observe(self, end: int, places: Mapping[bytes, int]) -> bool:
        """Notes what others wrote below `end`. Returns whether any of it is in front of our record of the same key."""
        hit = False
        for record in self.log.read_to(end):
            if record.key is None or self.is_own(record):
                continue
            self.touched[record.key] = record.offset
            hit = hit or record.offset < places.get(record.key, -1)
        return hit


def _key(record: LogRecord) -> bytes:
    assert record.key is not None, "rows have keys"  # noqa: S101 (a mistake of ours, not of anybody's data)
    return record.key


_TIMEOUT_S = 30.0
_TRANSACTION_TIMEOUT_MS = 20_000
"""A chunk takes less than a second. While a clean-up hangs, tasks that restore stores wait for this time."""


class KafkaTentativeLog:
    """A `TentativeLog` on one partition. Close it. Not thread-safe.

    Its transactional id fences the others of its topic: there is one clean-up of a store at a time.
    """

    def __init__(self, kafka: Kafka, topic: str) -> None:
        """Takes over the transactional id of the topic's clean-ups, which aborts what an earlier run left open.

        Raises:
            ConfigurationError: ACLs don't allow that transactional id.
            BrokerUnavailableError: the broker doesn't answer.
        """
        self._kafka = kafka
        self._topic = topic
        self._failed: list[KafkaError] = []
        self._producer = new_producer(
            kafka,
            {
                "transactional.id": cleanup_transaction(topic),
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "compression.type": "lz4",
                "linger.ms": 5,
            },
        )
        self._partition = -1
        self._read_up_to = 0
        self._open = False
        self._answered(lambda: self._producer.init_transactions(_TIMEOUT_S))

    def at(self, partition: int, offset: int) -> Self:
        """Switches to a partition; its next read starts at `offset`."""
        self._partition, self._read_up_to = partition, offset
        return self

    def append(self, records: Sequence[LogRecord]) -> list[int]:
        """Begins a transaction and appends. See `TentativeLog`.

        Raises:
            ChangelogError: the broker refused a record, or another clean-up took over.
        """
        offsets: dict[int, int] = {}
        self._answered(self._producer.begin_transaction)
        self._open = True
        for number, record in enumerate(records):
            self._producer.produce(
                self._topic,
                record.value,
                record.key,
                self._partition,
                headers=list(record.headers),
                timestamp=record.timestamp_ms,
                on_delivery=lambda error, message, number=number: self._placed(offsets, number, error, message),
            )
        self._producer.flush(_TIMEOUT_S)
        if self._failed or len(offsets) != len(records):
            reason = self._failed[0].str() if self._failed else "no answer in time"
            msg = f"{self._topic}-{self._partition} accepts no record ({reason}): is another clean-up running?"
            raise ChangelogError(msg)
        return [offsets[number] for number in range(len(records))]

    def commit(self) -> None:
        """See `TentativeLog`."""
        self._answered(lambda: self._producer.commit_transaction(_TIMEOUT_S))
        self._open = False

    def abort(self) -> None:
        """See `TentativeLog`. If the broker doesn't answer, it aborts by itself after half a minute."""
        if self._open:
            self._open = False
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(_TIMEOUT_S)

    def read_to(self, end: int) -> Iterator[LogRecord]:
        """See `TentativeLog`."""
        start, self._read_up_to = self._read_up_to, max(end, self._read_up_to)
        records = read_range(self._kafka, self._topic, self._partition, start, end, isolation="read_uncommitted")
        yield from log_records(records)

    def close(self) -> None:
        """Aborts an open transaction."""
        self.abort()

    def _placed(self, offsets: dict[int, int], number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
        else:
            offsets[number] = message.offset() or 0

    def _answered(self, step: Callable[[], object]) -> None:
        try:
            step()
        except KafkaException as error:
            raise self._failure(error.args[0]) from error

    def _failure(self, reason: KafkaError) -> StateError:
        topic = self._topic
        if reason.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):  # noqa: SLF001
            limit_s = _TRANSACTION_TIMEOUT_MS // 1000
            return ChangelogError(
                f"another clean-up of {topic} has begun, or a step of this one took over {limit_s} s: one at a time; "
                "the same command goes on where it was"
            )
        refused = denial(self._kafka, reason, cleanup_transaction(topic), "Write")
        return refused or BrokerUnavailableError(f"the broker can't answer about {topic} ({reason.str()}): is it up?")
