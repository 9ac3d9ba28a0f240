"""The topics: their settings, and making those that are missing on a real broker."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from harness.broker import Broker
from harness.project_apps import SYSTEM_APPS, TILL_APPS
from spark_apps.pos import POS
from storekeeper.apps.registry import APPS, stores
from storekeeper.apps.settings import AppSettings
from storekeeper.generations.journal import JournalFile
from storekeeper.kafka.clients import answers, new_admin
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.errors import StartError
from storekeeper.ops.new_project.plan import make_project
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import TopicSpec, ensure_topics, requested_topics, topics_of
from storekeeper.program import storekeeper_command
from tests.generations.test_steps import handed_over

SPECS = topics_of(PlatformSettings.load(), [POS])


@pytest.mark.broker
def test_missing_topics_are_made_once(broker: Broker) -> None:
    admin = new_admin(broker.kafka)
    specs = tuple(_renamed(topic) for topic in SPECS)
    assert ensure_topics(broker.kafka, specs) == [spec.name for spec in specs]
    assert ensure_topics(broker.kafka, specs) == []
    resource = ConfigResource(ResourceType.TOPIC, "ensured-pos-rewards-changelog")
    config = admin.describe_configs([resource])[resource].result(timeout=30)
    assert config["cleanup.policy"].value == "compact"
    assert config["min.compaction.lag.ms"].value == "10800000"


@pytest.mark.broker
def test_another_number_of_partitions_is_told_with_the_remedy(broker: Broker) -> None:
    broker.create_topic("ensured-otherwise", partitions=2)
    spec = TopicSpec("ensured-otherwise", 4, {})
    with pytest.raises(StartError, match=r"has 2 partitions but 4 are set: set `topic_partitions = 2`"):
        ensure_topics(broker.kafka, (spec,))


def test_changelogs_get_as_many_partitions_as_the_topics_that_are_there_ask_for() -> None:
    partitions = {topic.name: topic.partitions for topic in topics_of(PlatformSettings.load(), [POS], {"pos": 7})}
    assert partitions["pos"] == partitions["pos-rewards-changelog"] == 7
    assert partitions["pos-dlq"] == 4
    asked = {topic.name: topic.partitions for topic in requested_topics(PlatformSettings.load(), [POS], {"pos": 7})}
    assert asked["pos-gen-1-pos-markers"] == 7


def test_changelogs_of_a_generation_have_the_partitions_that_it_was_given(tmp_path: Path) -> None:
    journal = handed_over()
    JournalFile(tmp_path, "pos").write(journal.updated(replace(journal.live_generation, partitions=12)))
    settings = PlatformSettings.load(run_dir=tmp_path)
    for made in (topics_of, requested_topics):
        partitions = {topic.name: topic.partitions for topic in made(settings, [POS])}
        assert (partitions["pos"], partitions["pos-rewards-changelog"]) == (4, 4)
        assert partitions["pos-rewards-changelog-g2"] == 12, "the start would be refused"


@pytest.mark.broker
def test_a_broker_answers_or_not(broker: Broker) -> None:
    assert answers(broker.kafka, timeout_s=10)
    assert not answers(Kafka("127.0.0.1:1"), timeout_s=0.3)


def test_every_topic_of_every_app_is_made_once_and_changelogs_are_compacted() -> None:
    topics = topics_of(PlatformSettings.load(), APPS.values())
    policies = {topic.name: topic.config["cleanup.policy"] for topic in topics}
    assert len(policies) == len(topics)
    assert policies.keys() >= {topic for app in SYSTEM_APPS.values() for topic in app.topics(AppSettings())}
    changelogs = {store.changelog_topic for store in stores().values()}
    assert {name for name, policy in policies.items() if policy == "compact"} == changelogs


def test_without_them_there_are_those_of_the_tills_alone() -> None:
    topics = {topic.name: topic for topic in topics_of(PlatformSettings.load(), TILL_APPS.values())}
    assert topics.keys() == {
        *("pos", "shipment", "loyalty", "hadoop-sink", "pos-rewards-changelog", "pos-dlq", "hadoop_export-dlq")
    }
    assert {topic.partitions for topic in topics.values()} == {4}
    sizes = {name: int(topic.config["max.message.bytes"]) for name, topic in topics.items()}
    assert sizes["pos"] == 16 * 1024 * 1024
    assert sizes["pos-dlq"] > sizes["pos"], "a dead letter of the largest record fits with its headers"


@pytest.mark.broker
def test_the_topics_of_an_app_of_ones_own_are_made_once(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_project("page_visits", tmp_path)

    def made() -> str:
        command = storekeeper_command("create-topics", "spark_apps.page_visits:PAGE_VISITS")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    for setting in ("CONFIG", "APPS", "SHARED_APPS", "PROJECT_DIR"):
        monkeypatch.delenv(f"STOREKEEPER_{setting}", raising=False)
    monkeypatch.setenv("STOREKEEPER_KAFKA_BOOTSTRAP", broker.bootstrap)
    own = ["page_visits-events", "page_visits-dlq", "page_visits-page_visits_totals-changelog"]
    assert made().split() == own
    assert made() == ""


def _renamed(topic: TopicSpec) -> TopicSpec:
    return replace(topic, name=f"ensured-{topic.name}")
