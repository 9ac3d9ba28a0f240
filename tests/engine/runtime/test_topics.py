"""What a broker knows of topics, and topics that are made anew."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import TopicMetadata

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError, StateError
from storekeeper.kafka.connection import Kafka

pytestmark = pytest.mark.broker


def write(broker: Broker, topic: str, *times: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for time_ms in times:
        producer.produce(topic, b"v", partition=0, timestamp=time_ms)
    assert producer.flush(30) == 0


def test_a_time_is_the_place_of_the_first_record_from_then_on_or_the_end(broker: Broker) -> None:
    broker.create_topic("timed", 2)
    write(broker, "timed", 1_000, 2_000, 3_000)
    topics = Topics(broker.kafka)
    assert topics.offsets_at(["timed"], 1_001) == Position({"timed": {0: 1, 1: 0}})
    assert topics.offsets_at(["timed"], 0) == Position({"timed": {0: 0, 1: 0}})
    assert topics.offsets_at(["timed"], 3_001) == Position({"timed": {0: 3, 1: 0}})


def test_a_topic_that_is_made_anew_is_another_one_and_empty(broker: Broker) -> None:
    topics = Topics(broker.kafka)
    topics.recreate("anew", 2, {"cleanup.policy": "compact"})
    write(broker, "anew", 1_000)
    [before] = topics.ids(["anew"]).values()
    topics.recreate("anew", 3, {"cleanup.policy": "compact"})
    assert topics.ids(["anew"])["anew"] != before

    def end() -> Position | None:
        try:
            return topics.end(["anew"])
        except BrokerUnavailableError:  # retriable: a busy broker does not lead a new partition at once
            return None

    assert eventually(end, 30, "the broker leads the new partitions") == Position({"anew": dict.fromkeys(range(3), 0)})
    assert topics.own_config("anew") == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


def test_topics_that_do_not_keep_times_are_found(broker: Broker) -> None:
    topics, stamped = Topics(broker.kafka), {"message.timestamp.type": "LogAppendTime"}
    topics.ensure_internal("keeps-times", 1, {})
    broker.create_topic("stamped", 1, stamped)
    assert topics.without_times(["keeps-times", "stamped"]) == ["stamped"]
    assert topics.without_times([]) == []


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, BrokerUnavailableError, "knows no topic gone"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError, "the operation Describe on topic gone"),
        (KafkaError.LEADER_NOT_AVAILABLE, BrokerUnavailableError, "does not answer .LEADER_NOT_AVAILABLE"),
    ],
)
def test_a_topic_without_partitions_is_told_with_its_cause(code: int, error: type[StateError], says: str) -> None:
    metadata = TopicMetadata()
    metadata.error = KafkaError(code)
    answer = SimpleNamespace(topics={"gone": metadata})
    topics = Topics(Kafka("127.0.0.1:1"))
    topics._admin = cast("Any", SimpleNamespace(list_topics=lambda *_, **__: answer))
    for ask in (topics.partitions, lambda name: topics.partition_counts([name]), lambda name: topics.end([name])):
        with pytest.raises(error, match=says):
            ask("gone")


def test_a_broker_tells_of_a_topic_that_it_has_not(broker: Broker) -> None:
    with pytest.raises(BrokerUnavailableError, match="knows no topic never-made"):
        Topics(broker.kafka).partitions("never-made")


def test_the_committed_end_is_told_once_no_transaction_hides_it(broker: Broker) -> None:
    broker.create_topic("still", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "still"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("still", b"v")
    producer.flush(30)
    topics = Topics(broker.kafka)
    assert topics.end(["still"]) == Position({"still": {0: 0}})
    committing = threading.Timer(0.3, producer.commit_transaction)
    committing.start()
    assert topics.committed_end(["still"]) == Position({"still": {0: 2}})
    committing.join()
