"""Reading and writing whole topics in tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it lies in its topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]


def read_topic(bootstrap: str, topic: str) -> list[Record]:
    """All records that the topic holds now, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tests", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        bounds = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in partitions}
        unread = {p: end for p, (start, end) in bounds.items() if end > start}
        assigned = [TopicPartition(topic, p, bounds[p][0]) for p in unread]
        consumer.assign(assigned)
        records: list[Record] = []
        # By position: the offsets of transactions' own marks are never delivered.
        while any(place.offset < unread[place.partition] for place in consumer.position(assigned)):
            # Returns after this many or this time, whichever is first.
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                records.append(Record(partition, offset, message.key(), message.value(), dict(message.headers() or ())))
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def write_topic(bootstrap: str, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    """Appends records (key, value), keys to partitions as Java clients do."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 20})
    for key, value in records:
        producer.produce(topic, value=value, key=key)
    assert producer.flush(60) == 0


def end_offsets(bootstrap: str, topic: str) -> dict[str, dict[str, int]]:
    """The topic's end offsets as a heartbeat shows them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tests"})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {
            str(p): consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in sorted(partitions)
        }
    finally:
        consumer.close()
    return {topic: ends}
