"""Topics that are read whole, on a real broker."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, TopicDescription

from harness.broker import Broker
from harness.meanwhile import repeating
from harness.secured_broker import SecuredBroker
from harness.topics import write_topic
from harness.waiting import eventually
from storekeeper.changelog.bounded_reader import stable_bounds
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import Clock, ManualClock
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.node.cluster.compacted_topic import WholeTopicReader, create_compacted_topic

pytestmark = pytest.mark.broker


def reader_of(broker: Broker, topic: str, clock: Clock | None = None) -> WholeTopicReader:
    create_compacted_topic(broker.kafka, topic, timeout_s=10)
    return WholeTopicReader(broker.kafka, topic, "test", 10, clock)


def test_a_broker_that_makes_topics_by_itself_gets_a_compacted_one(secured_broker: SecuredBroker) -> None:
    """Kafka's default is to make a topic that a client asks about: with its own cleanup policy and partitions."""
    create_compacted_topic(secured_broker.broker.kafka, "whole-made", timeout_s=30, config={"segment.ms": "60000"})
    admin, resource = secured_broker.broker.admin(), ConfigResource(ConfigResource.Type.TOPIC, "whole-made")
    found = admin.describe_configs([resource])[resource].result(timeout=30)
    assert found["cleanup.policy"].value == "compact"
    assert found["segment.ms"].value == "60000"


def test_an_empty_topic_is_read_at_once(broker: Broker) -> None:
    reader = reader_of(broker, "whole-empty")
    assert reader.caught_up
    reader.close()


def test_all_that_was_there_is_read_although_others_never_stop_writing(broker: Broker) -> None:
    """Many nodes write heartbeats so often that the client never sees the end of the topic."""
    create_compacted_topic(broker.kafka, "whole-crowded", timeout_s=10)
    write_topic(broker.bootstrap, "whole-crowded", [(b"a", b"1"), (b"b", b"2")])
    producer = new_producer(broker.kafka, {"linger.ms": 0})

    def write() -> None:
        producer.produce("whole-crowded", b"3", b"c")
        producer.poll(0)

    with repeating(write, 0.01):
        eventually(lambda: stable_bounds(broker.kafka, "whole-crowded", 0)[1] > 2, 30, "others write")
        reader = reader_of(broker, "whole-crowded")
        assert not reader.caught_up
        read: list[bytes] = []

        def caught_up() -> bool:
            read.extend(message.key() for message in reader.read(0.2))
            return reader.caught_up

        eventually(caught_up, 30, "it has caught up")
        reader.close()
    assert read[:2] == [b"a", b"b"]


def test_a_topic_that_is_made_anew_has_to_be_opened_again(broker: Broker) -> None:
    """The client ignores a topic whose leader epoch is lower than the one that it knows by the topic's name."""
    topic, clock = "whole-anew", ManualClock()
    reader = reader_of(broker, topic, clock)
    write_topic(broker.bootstrap, topic, [(b"a", b"1")])
    eventually(lambda: reader.read(0.2), 30, "the record is read")

    def read_on() -> None:
        clock.advance(1000)
        reader.read(0.2)

    for _ in range(20):
        read_on()
    broker.delete_topic(topic)
    create_compacted_topic(broker.kafka, topic, timeout_s=10)
    write_topic(broker.bootstrap, topic, [(b"b", b"2")])
    with pytest.raises(BrokerUnavailableError, match="topic whole-anew was deleted"):
        eventually(read_on, 30, "it notices")
    reader.close()
    again = reader_of(broker, topic, clock)
    assert [message.key() for message in eventually(lambda: again.read(0.2), 30, "the record is read")] == [b"b"]
    again.close()


class NoBroker:
    """An admin client that no broker answers."""

    def __init__(self) -> None:
        self.asked = 0

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[TopicDescription]]:
        self.asked += 1
        answer = Future[TopicDescription]()
        answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"whole-undescribed": answer}


def test_a_reader_goes_on_and_asks_rarely_while_no_broker_describes_its_topic(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, clock = NoBroker(), ManualClock()
    reader = reader_of(broker, "whole-undescribed", clock)
    monkeypatch.setattr(reader, "_admin", admin)
    for _ in range(20):
        clock.advance(1000)
        reader.read(0)
    reader.close()
    assert admin.asked == 4


def test_without_a_broker_it_says_so() -> None:
    with pytest.raises(BrokerUnavailableError, match="no broker reports the end of topic t"):
        WholeTopicReader(Kafka("127.0.0.1:1"), "t", "test", 0.2)
