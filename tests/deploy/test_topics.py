"""The topics: their settings, and making those that are missing on a real broker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from deploy.app_topics import topics_of
from deploy.broker import answers
from deploy.errors import StartError
from deploy.settings import PlatformSettings
from deploy.topics import TopicSpec, ensure_topics
from harness.broker import Broker
from spark_apps.apps.pos import POS
from state.kafka_clients import new_admin

SPECS = topics_of(PlatformSettings.load(), [POS])


@pytest.mark.broker
def test_missing_topics_are_made_once(broker: Broker) -> None:
    admin = new_admin(broker.bootstrap)
    specs = tuple(_renamed(topic) for topic in SPECS)
    assert ensure_topics(admin, specs) == [spec.name for spec in specs]
    assert ensure_topics(admin, specs) == []
    resource = ConfigResource(ResourceType.TOPIC, "ensured-pos-rewards-changelog")
    config = admin.describe_configs([resource])[resource].result(timeout=30)
    assert config["cleanup.policy"].value == "compact"
    assert config["min.compaction.lag.ms"].value == "600000"


@pytest.mark.broker
def test_another_number_of_partitions_is_told_with_the_remedy(broker: Broker) -> None:
    broker.create_topic("ensured-otherwise", partitions=2)
    spec = TopicSpec("ensured-otherwise", 4, {})
    with pytest.raises(StartError, match=r"has 2 partitions but 4 are set: set STOREKEEPER_TOPIC_PARTITIONS=2"):
        ensure_topics(new_admin(broker.bootstrap), (spec,))


@pytest.mark.broker
def test_a_broker_answers_or_not(broker: Broker) -> None:
    assert answers(broker.bootstrap, timeout_s=10)
    assert not answers("127.0.0.1:1", timeout_s=0.3)


def _renamed(topic: TopicSpec) -> TopicSpec:
    return replace(topic, name=f"ensured-{topic.name}")
