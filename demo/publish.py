"""Publishes the demo's records, in their order, at a given rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import KafkaError, Message, Producer

from demo.invoices import Record
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.errors import StartError
from storekeeper.ops.topics import MAX_MESSAGE_BYTES

_CHUNK = 500
# Long enough for a killed broker to come back.
_DELIVERY_TIMEOUT_MS = 180_000


def publish(
    kafka: Kafka,
    records: Sequence[Record],
    *,
    rate: int = 0,
    on_progress: Callable[[int], None] = lambda published: None,
) -> None:
    """Publishes each record to its topic and waits until the broker has them all: each once, in order per partition.

    `rate` is records a second, 0 for as fast as the broker takes them. `on_progress` gets the number handed over.

    Raises:
        StartError: the broker refused one.
    """
    producer = new_producer(
        kafka,
        {
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # as Kafka's Java producer: equal keys, equal partitions for any tool
            "compression.type": "lz4",
            "linger.ms": 20,
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
            "queue.buffering.max.kbytes": 256 * 1024,
        },
    )
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error.str())

    for published, chunk in _paced(records, rate):
        for record in chunk:
            _produce(producer, record, delivered)
        on_progress(published)
    producer.flush()
    if failures:
        msg = f"{len(failures)} records could not be published ({failures[0]}): see the broker's log."
        raise StartError(msg)


def _produce(producer: Producer, record: Record, delivered: Callable[[KafkaError | None, Message], None]) -> None:
    while True:
        try:
            producer.produce(record.topic, key=record.key, value=record.value, on_delivery=delivered)
        except BufferError:
            producer.poll(0.5)  # the queue is full: wait for the broker to take some
        else:
            producer.poll(0)
            return


def _paced(records: Sequence[Record], rate: int) -> Iterator[tuple[int, Sequence[Record]]]:
    """Chunks of records, each with the count including it, no earlier than the rate allows."""
    size = min(_CHUNK, max(1, rate // 10)) if rate else _CHUNK
    begun = time.monotonic()
    for first in range(0, len(records), size):
        if rate:
            time.sleep(max(0.0, begun + first / rate - time.monotonic()))
        chunk = records[first : first + size]
        yield first + len(chunk), chunk
