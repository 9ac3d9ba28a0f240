"""Topics of one partition, compacted, that every node reads from the start: those of heartbeats and aliases."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import TopicDescription

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import Clock, SystemClock
from storekeeper.kafka.access import denial
from storekeeper.kafka.clients import new_admin, new_consumer, new_topic
from storekeeper.kafka.connection import Kafka

SIGNATURE = "signature"
"""The record header that holds the signature of the value."""
RECONNECT: Mapping[str, Any] = MappingProxyType({"reconnect.backoff.max.ms": 250})
_END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001 - public in spite of its underscore
_CHECK_EVERY_S = 5.0
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20)}


def create_compacted_topic(
    kafka: Kafka, topic: str, *, timeout_s: float, config: Mapping[str, str] | None = None
) -> None:
    """Makes the topic if there is none.

    `config` has settings besides compaction and the size of segments.

    Raises:
        BrokerUnavailableError: no broker answers now; try again.
        ConfigurationError: there is none, and settings or ACLs let nobody make it.
    """
    admin = new_admin(kafka, RECONNECT)
    try:
        if admin.list_topics(topic, timeout=timeout_s).topics[topic].error is None:
            return
        new = new_topic(kafka, topic, 1, {**COMPACTED, **(config or {})})
        admin.create_topics([new], request_timeout=timeout_s)[topic].result(timeout_s + 1)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        msg = f"the topic {topic} can't be looked up or made: {error.args[0].str()}"
        raise denial(kafka, error.args[0], topic, "Create") or BrokerUnavailableError(msg) from error
    except TimeoutError as error:
        raise BrokerUnavailableError(f"no broker makes the topic {topic} within {timeout_s:.0f} s") from error


class WholeTopicReader:
    """Reads a topic from its start and follows it. Belongs to one thread.

    It is of one topic, by its id. If that is deleted or recreated, a consumer would skip the records of
    the new one below its position, or never read it again: see `ChangelogReader`. So the broker is asked for the id
    every few seconds.

    Raises:
        BrokerUnavailableError: no broker answers now; try again.
    """

    def __init__(self, kafka: Kafka, topic: str, name: str, timeout_s: float, clock: Clock | None = None) -> None:
        partition = TopicPartition(topic, 0, 0)
        from_start = {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
        self._topic = topic
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self._next = 0
        self._admin = new_admin(kafka, RECONNECT)
        self._consumer = new_consumer(kafka, name, {**from_start, **RECONNECT})
        self._described: Future[TopicDescription] | None = None
        try:
            # The id comes first: then a topic that is recreated meanwhile has another one.
            self._topic_id = str(self._describe().result(timeout_s + 1).topic_id)
            _, self._end = self._consumer.get_watermark_offsets(partition, timeout=timeout_s)
            self._consumer.assign([partition])
        except (KafkaException, TimeoutError) as error:
            self._consumer.close()
            raise BrokerUnavailableError(f"no broker reports the end of topic {topic}: {_reason(error)}") from error

    @property
    def caught_up(self) -> bool:
        """Whether all that was there at the start has been read.

        The client's own signal of the end is not enough. It comes only when nobody has written for a tenth of a second,
        and the heartbeats of a dozen nodes leave no such gap.
        """
        return self._next >= self._end

    def read(self, timeout_s: float) -> list[Message]:
        """Waits up to `timeout_s` for records, then takes what is there.

        Raises:
            BrokerUnavailableError: the topic was deleted or recreated: open another reader.
        """
        self._check_topic()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(1000, timeout=0)]
        for message in messages:
            if (error := message.error()) is None:
                self._next = (message.offset() or 0) + 1
            elif error.code() == _END_OF_PARTITION:
                self._next = max(self._next, message.offset() or 0)
        return [message for message in messages if message.error() is None]

    def close(self) -> None:
        """Frees the client."""
        self._consumer.close()

    def _check_topic(self) -> None:
        """Takes the broker's last answer about the topic, or asks again; waits for nothing."""
        if self._described is None:
            if self._clock.monotonic_s() >= self._next_check_s:
                self._described = self._describe()
            return
        if not self._described.done():
            return
        described, self._described = self._described, None
        try:
            known = str(described.result().topic_id) == self._topic_id
        except KafkaException as error:
            # While no broker answers, nothing is known.
            known = error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART
        if not known:
            msg = f"the topic {self._topic} was deleted or recreated: it is read again from its start"
            raise BrokerUnavailableError(msg)

    def _describe(self) -> Future[TopicDescription]:
        self._next_check_s = self._clock.monotonic_s() + _CHECK_EVERY_S
        topics = TopicCollection([self._topic])
        return self._admin.describe_topics(topics, request_timeout=self._timeout_s)[self._topic]


def _reason(error: KafkaException | TimeoutError) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else "it doesn't answer in time"


def signature_in(message: Message) -> bytes | None:
    """The signature in a record's headers; None if there is none."""
    return bytes_or_none(dict(message.headers() or ()).get(SIGNATURE))


def bytes_or_none(value: object) -> bytes | None:
    """A key, value or header that is bytes, as all of ours are; None for anything else."""
    return value if isinstance(value, bytes) else None
