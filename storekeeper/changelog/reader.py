"""Reads changelog partitions: one consumer for many of them, each from an offset of its own, in large batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.log_bounds import TopicAndPartition, log_bounds
from storekeeper.changelog.restore import LogState
from storekeeper.errors import ChangelogError
from storekeeper.kafka.clients import new_admin, new_consumer
from storekeeper.kafka.connection import Kafka

log = structlog.get_logger(__name__)

NEVER_MS = 2**62
_FIRST_BATCH_RECORDS = 20_000
_MIN_BATCH_RECORDS = 100
_RECORD_OVERHEAD_BYTES = 200  # a message and its place in librdkafka's buffers, headers not counted
# librdkafka's own codes are public in spite of their underscore.
_END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001
_PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A changelog topic as the broker describes it. `delete_retention_ms`: how long tombstones are kept."""

    topic: str
    topic_id: str
    partitions: int
    delete_retention_ms: int


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """How a reader fetches.

    Attributes:
        kafka: the Kafka.
        max_batch_records: the most records of one read.
        max_batch_bytes: about the most bytes of keys and values of one read, estimated from the previous read.
        linger_s: how long a read waits for a full batch. Large batches hold fewer keys than records, so restoring
            gains by waiting; following must not wait.
        queue_kbytes: read-ahead memory of a reader.
        timeout_s: how long a request to the broker may take.
    """

    kafka: Kafka
    max_batch_records: int = 20_000
    max_batch_bytes: int = 64 << 20
    linger_s: float = 0.0
    queue_kbytes: int = 65_536
    timeout_s: float = 10.0


class ChangelogReader:
    """A consumer without a group: it commits nothing, positions live with the rows. Not thread-safe.

    librdkafka remembers the highest leader epoch of each partition by its topic's name, and ignores responses with a
    lower one. A recreated topic starts with a lower epoch, so its partitions would never be read again. So `facts`
    creates a new consumer when it sees a new topic id.
    """

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings
        self._admin = new_admin(settings.kafka, _CLIENT)
        self._consumer = _consumer(settings)
        self._topic_ids: dict[str, str] = {}
        self._positions: dict[TopicAndPartition, int] = {}
        self._batch_records = min(_FIRST_BATCH_RECORDS, settings.max_batch_records)

    def facts(self, topic: str) -> TopicFacts:
        """Describes a topic. A recreated topic is no longer read: add its partitions again.

        Raises:
            ChangelogError: if it doesn't exist.
            BrokerUnavailableError: if no broker answers in time.
        """
        timeout_s = self._settings.timeout_s
        try:
            future = self._admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)[topic]
            description = future.result(timeout=timeout_s + 1)
            resource = ConfigResource(ResourceType.TOPIC, topic)
            config = self._admin.describe_configs([resource], request_timeout=timeout_s)[resource].result(timeout_s + 1)
        except KafkaException as error:
            raise _told(error.args[0], topic) from error
        except TimeoutError as error:
            msg = f"no broker at {self._settings.kafka} describes {topic} within {timeout_s:.0f} s"
            raise BrokerUnavailableError(msg) from error
        compacted = "compact" in str(config["cleanup.policy"].value)
        retention_ms = int(config["delete.retention.ms"].value) if compacted else NEVER_MS
        found = TopicFacts(topic, str(description.topic_id), len(description.partitions), retention_ms)
        if self._topic_ids.setdefault(topic, found.topic_id) != found.topic_id:
            self._topic_ids[topic] = found.topic_id
            self._renew(topic)
        return found

    def log_state(self, facts: TopicFacts, partition: int) -> LogState:
        """Where one partition's log begins and ends now.

        Raises:
            BrokerUnavailableError: if no broker answers in time.
        """
        try:
            start, end = log_bounds(self._consumer, facts.topic, partition, self._settings.timeout_s)
        except KafkaException as error:
            raise _told(error.args[0], facts.topic) from error
        return LogState(facts.topic, facts.topic_id, partition, start, end, facts.delete_retention_ms)

    def add(self, topic: str, partition: int, offset: int) -> None:
        """Reads one more partition."""
        self._positions[topic, partition] = offset
        self._consumer.incremental_assign([TopicPartition(topic, partition, offset)])

    def remove(self, topic: str, partition: int) -> None:
        """Stops reading a partition. Does nothing if it isn't read."""
        if self._positions.pop((topic, partition), None) is not None:
            self._consumer.incremental_unassign([TopicPartition(topic, partition)])

    def read(self, timeout_s: float) -> list[PartitionBatch]:
        """Waits up to `timeout_s` for something to read, then returns what there is.

        Returns a batch per partition that had records, whose end was reached, or that can't be read on: maybe none.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(self._batch_records, timeout=self._settings.linger_s)]
        self._batch_records = next_batch_records(list(map(len, messages)), self._settings)
        return self._batches(messages)

    def end_offset(self, topic: str, partition: int) -> int | None:
        """The end of a partition that is being read, as of the last fetch; doesn't ask the broker. None: unknown."""
        try:
            bounds = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
        except KafkaException:
            return None
        return bounds[1] if bounds is not None and bounds[1] >= 0 else None

    def close(self) -> None:
        """Frees the consumer. Safe to call twice."""
        self._consumer.close()

    def _renew(self, recreated: str) -> None:
        """Replaces the consumer: at the same positions, with all topics but one."""
        self._consumer.close()
        self._consumer = _consumer(self._settings)
        self._positions = {where: offset for where, offset in self._positions.items() if where[0] != recreated}
        if self._positions:
            self._consumer.incremental_assign([TopicPartition(*at, offset) for at, offset in self._positions.items()])

    def _batches(self, messages: Iterable[Message]) -> list[PartitionBatch]:
        found: dict[TopicAndPartition, list[Message]] = {}
        ends: dict[TopicAndPartition, int] = {}
        moved: dict[TopicAndPartition, str] = {}
        records: list[Message] = []
        topic, partition = "", -1
        for message in messages:
            # Messages come in long runs of one partition: this loop is the reader's share of a restore's time.
            if message.partition() != partition or message.topic() != topic:
                topic, partition = message.topic() or "", message.partition()
                records = found.setdefault((topic, partition), [])
            error = message.error()
            if error is None:
                records.append(message)
            else:
                self._note(error, (topic, partition), message.offset(), ends, moved)
        return [self._batch(where, found[where], ends.get(where), moved.get(where)) for where in found]

    def _note(
        self,
        error: KafkaError,
        where: TopicAndPartition,
        offset: int,
        /,
        ends: dict[TopicAndPartition, int],
        moved: dict[TopicAndPartition, str],
    ) -> None:
        """Handles an event that is not a record: the end of the log, a transient error, or one that ends the read."""
        if error.code() == _END_OF_PARTITION:
            ends[where] = offset
        elif error.retriable() or error.code() in _PASSING:
            log.warning("changelog_read_retried", topic=where[0], partition=where[1], error=error.str())
        else:
            moved[where] = error.str()

    def _batch(
        self, where: TopicAndPartition, records: list[Message], end: int | None, moved: str | None
    ) -> PartitionBatch:
        position = records[-1].offset() + 1 if records else self._positions.get(where, 0)
        # Records read after the end was reported lie behind it: then it is no longer the end.
        end_reached = end is not None and end >= position
        self._positions[where] = end if end is not None and end_reached else position
        return PartitionBatch(*where, records, self._positions[where], end_reached, moved)


def next_batch_records(value_bytes: Sequence[int], settings: ReaderSettings) -> int:
    """How many records the next read may return if their values are as long as these (at least one)."""
    mean_bytes = sum(value_bytes) / len(value_bytes) + _RECORD_OVERHEAD_BYTES
    return max(_MIN_BATCH_RECORDS, min(settings.max_batch_records, int(settings.max_batch_bytes / mean_bytes)))


def _consumer(settings: ReaderSettings) -> Consumer:
    return new_consumer(
        settings.kafka,
        "replica",
        {
            **_CLIENT,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "fetch.message.max.bytes": 8 << 20,
            "fetch.max.bytes": 32 << 20,
            "queued.min.messages": 10 * settings.max_batch_records,
            "queued.max.messages.kbytes": settings.queue_kbytes,
            "topic.metadata.refresh.interval.ms": 10_000,
        },
    )


def _told(error: KafkaError, topic: str) -> ChangelogError:
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return ChangelogError(f"the changelog topic {topic} doesn't exist: start its app, or create it compacted")
    return BrokerUnavailableError(f"the broker can't answer about {topic}: {error.str()}")


def _log_client_error(error: KafkaError) -> None:
    log.warning("kafka_client_error", code=error.name(), error=error.str())


_CLIENT = {"reconnect.backoff.max.ms": 1000, "error_cb": _log_client_error}
