"""The settings of all that reaches Kafka."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.clients import new_topic
from storekeeper.kafka.connection import replication_factor, topic_config
from storekeeper.kafka.settings import KafkaSettings
from storekeeper.ops.settings import PlatformSettings


def test_topics_get_what_they_need_and_what_the_settings_add() -> None:
    kafka = KafkaSettings(topic_config="replication.factor=3, min.insync.replicas=2,retention.ms=5").kafka
    assert replication_factor(kafka) == 3
    assert topic_config(kafka, {"retention.ms": "-1"}) == {
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    other = {"message.timestamp.type": "LogAppendTime"}
    assert topic_config(KafkaSettings().kafka, other) == other
    topic = new_topic(kafka, "t", 4, {})
    assert (topic.num_partitions, topic.replication_factor) == (4, 3)
    assert replication_factor(KafkaSettings().kafka) == -1


@pytest.mark.parametrize(
    "text",
    ["a", "a=1,a=2", "cleanup.policy=delete", "message.timestamp.type=CreateTime", "replication.factor=0", "=1"],
)
def test_a_configuration_that_no_topic_can_have_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        KafkaSettings(topic_config=text)


def test_no_topic_is_made_against_the_settings() -> None:
    with pytest.raises(ConfigurationError, match=r"topic t must be made, .*create-topics --dry-run"):
        new_topic(KafkaSettings(make_topics=False).kafka, "t", 1, {})


def test_a_cluster_names_what_belongs_to_the_platform() -> None:
    assert KafkaSettings().kafka.cluster == "storekeeper"
    assert KafkaSettings(cluster="till-team.query").kafka.cluster == "till-team.query"
    with pytest.raises(ValidationError, match="can't be a name"):
        KafkaSettings(cluster="till team")


def test_the_platform_starts_a_broker_unless_another_is_named() -> None:
    own = PlatformSettings.load(kafka_port=20000)
    assert (own.kafka.bootstrap, own.starts_broker) == ("127.0.0.1:20000", True)
    other = PlatformSettings.load(kafka_bootstrap="kafka.example:9093")
    assert (other.kafka.bootstrap, other.starts_broker) == ("kafka.example:9093", False)
    assert "`kafka_port`" in own.ports
    assert "`kafka_port`" not in other.ports
