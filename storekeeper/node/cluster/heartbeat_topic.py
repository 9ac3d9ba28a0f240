"""The topic that carries heartbeats: one partition, compacted by node name, made by the first node that needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from confluent_kafka import Message, Producer

from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.names import members_topic
from storekeeper.node.cluster.compacted_topic import (
    RECONNECT,
    SIGNATURE,
    WholeTopicReader,
    bytes_or_none,
    create_compacted_topic,
    signature_in,
)

log = structlog.get_logger(__name__)

_TIMEOUT_S = 5.0
HEARTBEAT_CONFIG = {
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.1",
    # The brokers' time of a record lets a starting platform compare the clocks.
    "message.timestamp.type": "LogAppendTime",
}
"""Segments close soon, so that heartbeats are compacted before they grow into gigabytes."""


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """A record of the topic."""

    key: bytes | None = None
    value: bytes | None = None
    signature: bytes | None = None


class HeartbeatChannel:
    """Carries heartbeats between nodes. Belongs to one thread."""

    def __init__(self, kafka: Kafka) -> None:
        self._topic = members_topic(kafka.cluster)
        self._kafka = kafka
        self._producer: Producer | None = None
        self._reader: WholeTopicReader | None = None

    def open(self) -> None:
        """Makes the topic if there is none, and begins to read it from its start.

        Raises:
            BrokerUnavailableError: no broker answers now; try again.
        """
        self.close()
        create_compacted_topic(self._kafka, self._topic, timeout_s=_TIMEOUT_S, config=HEARTBEAT_CONFIG)
        self._producer = new_producer(
            self._kafka,
            {
                "acks": "1",
                "linger.ms": 0,
                "message.timeout.ms": 1000,
                "queue.buffering.max.messages": 100,
                **RECONNECT,
            },
        )
        self._reader = WholeTopicReader(self._kafka, self._topic, "members", _TIMEOUT_S)

    def send(self, key: bytes, value: bytes, signature: bytes) -> None:
        """Sends a heartbeat, without waiting. One that can't be sent within a second is dropped."""
        if self._producer is None:
            return
        try:
            self._producer.produce(self._topic, value, key, partition=0, headers={SIGNATURE: signature})
            self._producer.poll(0)
        except BufferError:
            log.warning("heartbeat_dropped", reason="the broker takes none")
            self._producer.poll(0)

    def read(self, timeout_s: float) -> Sequence[HeartbeatRecord]:
        """Waits up to `timeout_s` for records, then takes what is there."""
        return [] if self._reader is None else [_record(message) for message in self._reader.read(timeout_s)]

    @property
    def caught_up(self) -> bool:
        """Whether all has been read that was there when it was opened."""
        return self._reader is not None and self._reader.caught_up

    def flush(self, timeout_s: float) -> None:
        """Waits until the broker has all sent heartbeats."""
        if self._producer is not None:
            self._producer.flush(timeout_s)

    def close(self) -> None:
        """Frees the clients. Safe to call twice."""
        if self._reader is not None:
            self._reader.close()
        if self._producer is not None:
            self._producer.purge()
        self._reader = self._producer = None


def _record(message: Message) -> HeartbeatRecord:
    return HeartbeatRecord(bytes_or_none(message.key()), bytes_or_none(message.value()), signature_in(message))
