"""What an administrator is asked to make."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from deploy import entry
from deploy.kafka.requests import printed, resource_name
from deploy.settings import PlatformSettings
from deploy.topics import requested_topics
from harness.acls import bindings
from spark_apps.apps.pos import POS

SETTINGS = PlatformSettings.load(topic_config="replication.factor=3,min.insync.replicas=2")


def test_commands_make_each_topic_with_its_configuration() -> None:
    lines = [shlex.split(line) for line in printed(SETTINGS, [POS], "commands")]
    topics = {words[words.index("--topic") + 1]: words for words in lines if words[0] == "kafka-topics"}
    assert list(topics) == [topic.name for topic in requested_topics(SETTINGS, [POS])]
    assert {"pos", "pos-dlq", "pos-gen-1-pos-markers", "storekeeper-members", "storekeeper-aliases"} <= topics.keys()
    changelog = topics["pos-rewards-changelog"]
    assert changelog[changelog.index("--replication-factor") + 1] == "3"
    assert {"cleanup.policy=compact", "min.insync.replicas=2"} <= set(changelog)


def test_strimzi_gets_the_same_topics_and_acls_as_comments() -> None:
    text = "\n".join(printed(SETTINGS, [POS], "strimzi"))
    found = {one["spec"]["topicName"]: one for one in yaml.safe_load_all(text)}
    topics = {topic.name: topic for topic in requested_topics(SETTINGS, [POS])}
    assert found.keys() == topics.keys()
    for name, one in found.items():
        assert (one["apiVersion"], one["kind"]) == ("kafka.strimzi.io/v1", "KafkaTopic")
        assert one["metadata"]["name"] == resource_name(name)
        assert (one["spec"]["partitions"], one["spec"]["replicas"]) == (topics[name].partitions, 3)
        assert one["spec"]["config"] == {"min.insync.replicas": "2", **topics[name].config}
    acls = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# kafka-acls")]
    assert list(bindings(acls)) == list(
        bindings(line for line in printed(SETTINGS, [POS], "commands") if line.startswith("kafka-acls"))
    )


def test_names_of_resources_are_those_that_kubernetes_allows() -> None:
    assert resource_name("Page_views-totals.changelog") == "page-views-totals.changelog"


def test_acls_allow_no_more_than_the_work_needs() -> None:
    acls = list(bindings(line for line in printed(SETTINGS, [POS], "commands") if line.startswith("kafka-acls")))
    allowed = {(acl.restype.name, acl.name, acl.resource_pattern_type.name, acl.operation.name) for acl in acls}
    assert {kind for kind, *_ in allowed} == {"TOPIC", "GROUP", "TRANSACTIONAL_ID"}, "nothing of the cluster"
    assert ("TOPIC", "pos", "LITERAL", "READ") in allowed
    assert ("TOPIC", "pos", "LITERAL", "WRITE") not in allowed
    assert ("TOPIC", "shipment", "LITERAL", "READ") not in allowed
    assert ("TOPIC", "pos-", "PREFIXED", "WRITE") in allowed
    assert not {operation for *_, operation in allowed} & {"ALL", "ALTER_CONFIGS"}


def test_the_command_prints_and_makes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    properties = tmp_path / "kafka.properties"
    properties.touch(mode=0o600)
    properties.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=hidden\n")
    monkeypatch.setenv("STOREKEEPER_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("STOREKEEPER_KAFKA_PROPERTIES", str(properties))
    monkeypatch.setenv("STOREKEEPER_MAKE_TOPICS", "false")
    done = CliRunner().invoke(entry.app, ["create-topics", "--dry-run", "pos"])
    assert done.exit_code == 0
    assert "--allow-principal User:me" in done.stdout
    assert "--operation Create" not in done.stdout
    assert "hidden" not in done.stdout
