"""The topic that carries heartbeats: one partition, compacted by node name, made by the first node that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from state.changelog.errors import BrokerUnavailableError
from state.cluster.heartbeat import SIGNATURE
from state.kafka_clients import new_admin, new_consumer, new_producer

log = structlog.get_logger(__name__)

_TIMEOUT_S = 5.0
_CONFIG = {
    "cleanup.policy": "compact",
    # Small segments that close soon, so that heartbeats are compacted before they grow into gigabytes.
    "segment.bytes": str(1 << 20),
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.1",
}
_RECONNECT = {"reconnect.backoff.max.ms": 250}
_END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001 - public in spite of its underscore


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the topic. `end_reached`: it is no record, but signals that the whole topic has been read."""

    key: bytes | None = None
    value: bytes | None = None
    signature: bytes | None = None
    end_reached: bool = False


class HeartbeatChannel(Protocol):
    """Carries heartbeats between nodes. Belongs to one thread."""

    def open(self) -> None:
        """Begins to read the topic from its start.

        Raises:
            BrokerUnavailableError: no broker answers now; try again.
        """
        ...

    def send(self, key: bytes, value: bytes, signature: bytes) -> None:
        """Sends a heartbeat, without waiting. One that can't be sent within a second is dropped."""
        ...

    def read(self, timeout_s: float) -> Sequence[Record]:
        """Waits up to `timeout_s` for records, then takes what is there."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Waits until the broker has all sent heartbeats."""
        ...

    def close(self) -> None:
        """Frees the clients. Safe to call twice."""
        ...


class KafkaHeartbeatChannel:
    """Heartbeats through Kafka."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._bootstrap = bootstrap
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    def open(self) -> None:
        """Makes the topic if there is none, and begins to read it from its start.

        Raises:
            BrokerUnavailableError: no broker answers now; try again.
        """
        self.close()
        self._create()
        self._producer = new_producer(
            self._bootstrap,
            {
                "acks": "1",
                "linger.ms": 0,
                "message.timeout.ms": 1000,
                "queue.buffering.max.messages": 100,
                **_RECONNECT,
            },
        )
        self._consumer = new_consumer(
            self._bootstrap,
            "members",
            {
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                **_RECONNECT,
            },
        )
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])

    def send(self, key: bytes, value: bytes, signature: bytes) -> None:
        """Sends a heartbeat, without waiting."""
        if self._producer is None:
            return
        try:
            self._producer.produce(self._topic, value, key, partition=0, headers={SIGNATURE: signature})
            self._producer.poll(0)
        except BufferError:
            log.warning("heartbeat_dropped", reason="the broker takes none")
            self._producer.poll(0)

    def read(self, timeout_s: float) -> Sequence[Record]:
        """Waits up to `timeout_s` for records, then takes what is there."""
        if self._consumer is None:
            return ()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return ()
        messages = [first, *self._consumer.consume(1000, timeout=0)]
        return [record for message in messages if (record := _record(message)) is not None]

    def flush(self, timeout_s: float) -> None:
        """Waits until the broker has all sent heartbeats."""
        if self._producer is not None:
            self._producer.flush(timeout_s)

    def close(self) -> None:
        """Frees the clients."""
        if self._consumer is not None:
            self._consumer.close()
        if self._producer is not None:
            self._producer.purge()
        self._consumer = self._producer = None

    def _create(self) -> None:
        admin = new_admin(self._bootstrap, _RECONNECT)
        try:
            topics = admin.list_topics(self._topic, timeout=_TIMEOUT_S).topics
            if topics[self._topic].error is None:
                return
            topic = NewTopic(self._topic, 1, -1, config=_CONFIG)
            admin.create_topics([topic], request_timeout=_TIMEOUT_S)[self._topic].result(_TIMEOUT_S + 1)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            msg = f"the topic {self._topic} for heartbeats can't be looked up or made: {error.args[0].str()}"
            raise BrokerUnavailableError(msg) from error
        except TimeoutError as error:
            msg = f"no broker makes the topic {self._topic} for heartbeats within {_TIMEOUT_S:.0f} s"
            raise BrokerUnavailableError(msg) from error


def _record(message: Message) -> Record | None:
    error = message.error()
    if error is not None:
        return Record(end_reached=True) if error.code() == _END_OF_PARTITION else None
    headers = dict(message.headers() or ())
    return Record(_bytes(message.key()), _bytes(message.value()), _bytes(headers.get(SIGNATURE)))


def _bytes(found: object) -> bytes | None:
    return found if isinstance(found, bytes) else None
