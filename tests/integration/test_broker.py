"""The fixture itself: a broker that keeps its data over a kill."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.broker import Broker


@pytest.mark.broker
def test_records_survive_a_killed_broker(broker: Broker) -> None:
    broker.create_topic("survivor", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("survivor", b"v", b"k")
    assert producer.flush(30) == 0

    broker.kill()
    assert not broker.running
    broker.start()

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t", "enable.auto.commit": False})
    consumer.assign([TopicPartition("survivor", 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.key(), message.value()) == (b"k", b"v")
