"""A changelog's partitions on Kafka: scans of what is committed, and the tentative log of a clean-up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from state.changelog.errors import BrokerUnavailableError
from state.changelog.reader import ChangelogReader, ReaderSettings
from state.errors import ChangelogError
from state.maintenance.log_record import LogRecord

TIMEOUT_S = 30.0
_TRANSACTION_TIMEOUT_MS = 60_000
_FETCHED = 5000
_END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001 (public in spite of its underscore)


class Changelog:
    """A changelog topic as `read_committed` readers see it. A context manager. Not thread-safe.

    Methods raise `BrokerUnavailableError` when the broker doesn't answer.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Asks the broker about the topic.

        Raises:
            ChangelogError: it doesn't exist.
        """
        self._bootstrap = bootstrap
        reader = ChangelogReader(ReaderSettings(bootstrap, timeout_s=TIMEOUT_S))
        try:
            self.facts = reader.facts(topic)
        finally:
            reader.close()
        self.topic = topic
        self._consumer = Consumer(_consumer_options(bootstrap, "read_committed"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the consumer."""
        self._consumer.close()

    @property
    def partitions(self) -> range:
        """The partitions' numbers."""
        return range(self.facts.partitions)

    def bounds(self, partition: int) -> tuple[int, int]:
        """The first offset, and the end: before the first record of a transaction that is still open."""
        deadline_s = time.monotonic() + TIMEOUT_S
        where = TopicPartition(self.topic, partition)
        while True:
            try:
                bounds = self._consumer.get_watermark_offsets(where, timeout=TIMEOUT_S)
            except KafkaException as error:
                # A topic made a moment ago, or a broker that has just started, takes a while to have leaders.
                if time.monotonic() > deadline_s:
                    raise _unanswered(self.topic, error) from error
                time.sleep(0.2)
            else:
                return bounds[0], bounds[1]

    def ends(self) -> dict[int, int]:
        """The end of each partition."""
        return {partition: self.bounds(partition)[1] for partition in self.partitions}

    def scan(self, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """The committed records with `start <= offset < end`, in their order.

        Raises:
            ChangelogError: the log begins behind `start`: it was cut off or made anew.
        """
        first, _ = self.bounds(partition)
        if start < first:
            msg = f"{self.topic}-{partition} begins at {first}, behind {start}: the topic was made anew or is cut off"
            raise ChangelogError(msg)
        yield from _records(self._consumer, TopicPartition(self.topic, partition, start), end)


class KafkaTentativeLog:
    """A `TentativeLog` on one partition. Close it. Not thread-safe.

    `transactional_id` shuts out whoever else writes with the same one: there is one clean-up of a store at a time.
    """

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        """Takes over the transactional id, which aborts what an earlier run left open."""
        self._topic = topic
        self._failed: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "compression.type": "lz4",
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        self._consumer = Consumer(_consumer_options(bootstrap, "read_uncommitted"))
        self._partition = -1
        self._read_up_to = 0
        self._open = False
        _answered(topic, lambda: self._producer.init_transactions(TIMEOUT_S))

    def at(self, partition: int, offset: int) -> Self:
        """Turns to a partition, to be read on from `offset`."""
        self._partition, self._read_up_to = partition, offset
        return self

    def append(self, records: Sequence[LogRecord]) -> list[int]:
        """Begins a transaction and appends. See `TentativeLog`.

        Raises:
            ChangelogError: the broker refused a record, or another clean-up took over.
        """
        offsets: dict[int, int] = {}
        _answered(self._topic, self._producer.begin_transaction)
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
        self._producer.flush(TIMEOUT_S)
        if self._failed or len(offsets) != len(records):
            reason = self._failed[0].str() if self._failed else "no answer in time"
            msg = f"{self._topic}-{self._partition} takes no record ({reason}): is another clean-up running?"
            raise ChangelogError(msg)
        return [offsets[number] for number in range(len(records))]

    def commit(self) -> None:
        """See `TentativeLog`."""
        _answered(self._topic, lambda: self._producer.commit_transaction(TIMEOUT_S))
        self._open = False

    def abort(self) -> None:
        """See `TentativeLog`. If the broker doesn't answer, it aborts by itself after a minute."""
        if self._open:
            self._open = False
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(TIMEOUT_S)

    def read_to(self, end: int) -> Iterator[LogRecord]:
        """See `TentativeLog`."""
        where = TopicPartition(self._topic, self._partition, self._read_up_to)
        self._read_up_to = max(end, self._read_up_to)
        yield from _records(self._consumer, where, end)

    def close(self) -> None:
        """Aborts what is open and frees the clients."""
        self.abort()
        self._consumer.close()

    def _placed(self, offsets: dict[int, int], number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
        else:
            offsets[number] = message.offset() or 0


def _records(consumer: Consumer, where: TopicPartition, end: int) -> Iterator[LogRecord]:
    """The records from `where` to `end`, however many offsets in between belong to no record."""
    if where.offset >= end:
        return
    consumer.assign([where])
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        first = consumer.poll(0.2)
        for message in [] if first is None else [first, *consumer.consume(_FETCHED, timeout=0)]:
            deadline_s = time.monotonic() + TIMEOUT_S
            error, offset = message.error(), message.offset() or 0
            if error is not None:
                if error.code() != _END_OF_PARTITION:
                    raise _unanswered(where.topic, KafkaException(error))
                if offset < end:
                    continue
            if offset >= end:
                consumer.unassign()
                return
            yield LogRecord(offset, message.timestamp()[1], message.key(), message.value(), message.headers() or ())
        if consumer.position([where])[0].offset >= end:
            consumer.unassign()
            return
        if time.monotonic() > deadline_s:
            msg = (
                f"{where.topic}-{where.partition} can't be read up to {end} within {TIMEOUT_S:.0f} s: is the broker up?"
            )
            raise BrokerUnavailableError(msg)


def _consumer_options(bootstrap: str, isolation: str) -> Mapping[str, str | int | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "storekeeper-maintenance",  # required by the client; never joined nor committed to
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 10,
        "log_level": 0,
    }


def _answered(topic: str, step: Callable[[], object]) -> None:
    try:
        step()
    except KafkaException as error:
        raise _unanswered(topic, error) from error


def _unanswered(topic: str, error: KafkaException) -> ChangelogError:
    reason: KafkaError = error.args[0]
    if reason.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):  # noqa: SLF001
        return ChangelogError(f"another clean-up of {topic} has begun: one at a time")
    return BrokerUnavailableError(f"the broker can't answer about {topic} ({reason.str()}): is it up?")
