"""Reads a topic's partitions from one offset to another: records that exist already.

Three things make that harder than it looks:

- Not every offset has a record: transactions end with a marker, and compaction removes records. So the end is detected
  by the consumer's position, a record behind it or the end-of-partition event, never by a record's offset alone.
- After a new assignment a consumer reports its old position for a while. So that counts from the first record on only.
- An empty fetch doesn't prove the end: the broker may just be slow.

A new consumer takes three times as long to give its first record as one that is kept and assigned anew. So tasks,
which read a range or two in each batch, keep theirs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from storekeeper.changelog.committed_ends import committed_ends
from storekeeper.changelog.errors import BrokerUnavailableError, ChangelogMovedError
from storekeeper.changelog.log_bounds import FIRST, kept_offset_client, log_bounds, log_offsets
from storekeeper.errors import ChangelogError
from storekeeper.kafka.access import denial
from storekeeper.kafka.clients import CONNECT_AT_ONCE, new_consumer
from storekeeper.kafka.connection import Kafka

PATIENCE_S = 30.0
"""A request or a read without any answer or progress fails after this time."""

_CLIENT = "range"
_POLL_S = 0.2
_PAUSE_S = 0.2
_PART_RECORDS = 10_000
_LEADER_S = 1.0
_MOST_KEPT = 4
# librdkafka's own codes are public in spite of their underscore.
_END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001
_OUT_OF_RANGE = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001
_PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001
"""The client goes on by itself: a broker that restarts is back within `PATIENCE_S`."""

_KEPT: dict[tuple[Kafka, str], deque[tuple[Consumer, set[str]]]] = {}
"""Consumers, each with the topics that it has read."""

_Answer = TypeVar("_Answer")


def read_range(
    kafka: Kafka, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_committed"
) -> Iterator[Message]:
    """The records of a partition with `start <= offset < end`, in their order, by a consumer of its own.

    Arguments and errors are those of `read_parts`.
    """
    return chain.from_iterable(read_parts(kafka, topic, partition, start, end, isolation=isolation, keep=False))


def read_parts(
    kafka: Kafka,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    isolation: str = "read_committed",
    keep: bool = True,
) -> Iterator[list[Message]]:
    """The same in parts: what is there at once, a few mebibytes.

    Args:
        kafka: the Kafka.
        topic: an existing topic.
        partition: one of its partitions.
        start: an offset that the log still has, unless the range is empty.
        end: at most the partition's stable end; exclusive.
        isolation: `read_committed`, or `read_uncommitted` for open and aborted transactions, too.
        keep: whether the process keeps the consumer for later ranges.

    Raises:
        BrokerUnavailableError: the broker sends nothing for half a minute, or the partition ends before `end`.
        ConfigurationError: ACLs don't allow it.
        ChangelogMovedError: the log begins behind `start`.
    """
    if start >= end:
        return
    where = TopicPartition(topic, partition, start)
    lent = _lent(kafka, topic, isolation) if keep else closing(_consumer(kafka, isolation))
    most = min(_PART_RECORDS, end - start)
    with _named_in_errors(topic), lent as consumer:
        consumer.assign([where])
        reached, deadline_s, has_begun = start, time.monotonic() + PATIENCE_S, not keep
        while True:
            position = consumer.position([where])[0].offset if has_begun else start
            if position >= end:
                return
            if position > reached:
                reached, deadline_s = position, time.monotonic() + PATIENCE_S
            elif time.monotonic() > deadline_s:
                msg = f"{topic}-{partition} can't be read up to {end} within {PATIENCE_S:.0f} s: is the broker up?"
                raise BrokerUnavailableError(msg)
            first = consumer.poll(_POLL_S)
            if first is None:
                continue
            part, is_complete = _before(end, [first, *consumer.consume(most, timeout=0)], kafka)
            if part:
                has_begun = True
                yield part
                deadline_s = time.monotonic() + PATIENCE_S  # the caller may have taken its time
            if is_complete:
                return


def read_topic(kafka: Kafka, topic: str) -> Iterator[Message]:
    """The committed records that a topic holds now, partition by partition, each in the order of offsets.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        OpenTransactionError: an open transaction hides some of them.
        ChangelogError: there is no such topic.
        ConfigurationError: ACLs don't allow it.
    """
    bounds = {partition: committed_bounds(kafka, topic, partition) for partition in partitions_of(kafka, topic)}
    for partition, (start, end) in bounds.items():
        yield from read_range(kafka, topic, partition, start, end)


def partitions_of(kafka: Kafka, topic: str) -> list[int]:
    """The partitions of a topic, ascending.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        ChangelogError: there is no such topic.
        ConfigurationError: ACLs don't allow it.
    """
    client = kept_offset_client(kafka)
    metadata = _answer(kafka, topic, lambda: client.list_topics(topic, timeout=PATIENCE_S).topics[topic])
    refused = None if metadata.error is None else denial(kafka, metadata.error, topic, "Describe")
    if refused is not None:
        raise refused
    if not metadata.partitions:
        raise ChangelogError(f"there is no topic {topic}: start the app that writes it, or create it")
    return sorted(metadata.partitions)


def first_offset(kafka: Kafka, topic: str, partition: int) -> int:
    """The first offset that a partition still has.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        ConfigurationError: ACLs don't allow it.
    """
    where = (topic, partition)

    def ask(client: Consumer) -> int:
        return log_offsets(client, {where: FIRST}, PATIENCE_S)[where]

    return _answer(kafka, topic, lambda: _described(topic, ask, kept_offset_client(kafka)))


def committed_bounds(kafka: Kafka, topic: str, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and the end of what is committed in it; see `committed_ends`.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        OpenTransactionError: a transaction stays open.
        ConfigurationError: ACLs don't allow it.
    """
    return first_offset(kafka, topic, partition), committed_ends(kafka, [(topic, partition)])[topic, partition]


def stable_bounds(kafka: Kafka, topic: str, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and its last stable offset: committed records may lie behind it.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        ConfigurationError: ACLs don't allow it.
    """

    def ask(client: Consumer) -> tuple[int, int]:
        return log_bounds(client, topic, partition, PATIENCE_S)

    return _answer(kafka, topic, lambda: _described(topic, ask, kept_offset_client(kafka)))


def _described(topic: str, ask: Callable[[Consumer], _Answer], client: Consumer) -> _Answer:
    try:
        return ask(client)
    except KafkaException as error:
        # Of a topic that ACLs hide, it says that it does not know the partition.
        cause = client.list_topics(topic, timeout=PATIENCE_S).topics[topic].error
        raise KafkaException(cause or error.args[0]) from error


@contextmanager
def _named_in_errors(topic: str) -> Iterator[None]:
    """Turns an error of the client, which names no topic, into one that does."""
    try:
        yield
    except KafkaException as error:
        msg = f"the client reads no records of {topic} ({error.args[0].str()}): is the broker up?"
        raise BrokerUnavailableError(msg) from error


@contextmanager
def _lent(kafka: Kafka, topic: str, isolation: str) -> Iterator[Consumer]:
    """A consumer that this process keeps, unless what it is used for fails or is given up."""
    kept = _KEPT.setdefault((kafka, isolation), deque())
    try:
        consumer, known = kept.pop()
    except IndexError:
        consumer, known = _consumer(kafka, isolation), {topic}
    if topic not in known:
        # A connected consumer looks up the leader of a new topic once a second, unless it is asked.
        with suppress(KafkaException):  # the reader waits for a broker that restarts
            consumer.list_topics(topic, timeout=_LEADER_S)
        known.add(topic)
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    if len(kept) < _MOST_KEPT:
        kept.append((consumer, known))
    else:
        consumer.close()


def _consumer(kafka: Kafka, isolation: str = "read_committed") -> Consumer:
    return new_consumer(
        kafka,
        _CLIENT,
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            # The end-of-partition event comes with an empty fetch, which must not wait.
            "fetch.wait.max.ms": 10,
            # By default it would fetch 64 MiB ahead, mostly from behind the range. They bound its memory, too.
            "fetch.message.max.bytes": 256 << 10,
            "queued.min.messages": _PART_RECORDS,
            "queued.max.messages.kbytes": 8 << 10,
            # By default it rests for a second once its queue is full: the stream join ran at 58,000 records a second.
            "fetch.queue.backoff.ms": 1,
            **CONNECT_AT_ONCE,
        },
    )


def _before(end: int, messages: list[Message], kafka: Kafka) -> tuple[list[Message], bool]:
    """The records in front of `end` among messages in their order, and whether these show that there are no more."""
    last = messages[-1]
    if last.error() is None and (last.offset() or 0) < end and all(message.error() is None for message in messages):
        return messages, last.offset() == end - 1
    found: list[Message] = []
    for message in messages:
        if _ends(kafka, message, end):
            return found, True
        if message.error() is None:
            found.append(message)
    return found, False


def _ends(kafka: Kafka, message: Message, end: int) -> bool:
    """Whether a message shows that the range is complete."""
    error = message.error()
    if error is None or error.code() == _END_OF_PARTITION:  # that has the log's end as its offset
        return (message.offset() or 0) >= end
    if error.code() == _OUT_OF_RANGE:
        raise ChangelogMovedError(message.topic(), message.partition(), error.str())
    if error.retriable() or error.code() in _PASSING:
        return False
    msg = f"the broker sends no records of {message.topic()} ({error.str()}): is it up?"
    # An error about the group names no topic.
    raise denial(kafka, error, message.topic() or f"{kafka.cluster}-{_CLIENT}", "Read") or BrokerUnavailableError(msg)


def _answer(kafka: Kafka, topic: str, request: Callable[[], _Answer | None]) -> _Answer:
    """Asks until there is an answer: the broker reports no leaders of a new topic for a while."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        reason = "no answer"
        try:
            answer = request()
            if answer is not None:
                return answer
        except KafkaException as error:
            refused = denial(kafka, error.args[0], topic, "Describe")
            if refused is not None:
                raise refused from error
            reason = error.args[0].str()
        if time.monotonic() > deadline_s:
            raise BrokerUnavailableError(f"the broker does not describe {topic} ({reason}): is it up?")
        time.sleep(_PAUSE_S)
