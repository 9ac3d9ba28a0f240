"""What an administrator is asked to make."""

from __future__ import annotations

import operator
import shlex
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from typer.testing import CliRunner

from harness.acls import bindings
from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.cli import entry
from storekeeper.kafka.connection import topic_config
from storekeeper.names import cleanup_transaction, node_group
from storekeeper.ops.kafka.requests import printed, resource_name
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import requested_topics
from storekeeper.topology import Store, StreamsBuilder
from tests.engine import topologies


def initial(key: str, _: int) -> str:
    """Another key."""
    return key[:1]


def points_topology(streams: StreamsBuilder, _: AppSettings) -> None:
    """A store, then a repartition behind it, which takes a topic, and another store."""
    totals = streams.stream("purchases", int).group_by_key().reduce(operator.add, store="totals")
    totals.to_stream().select_key(initial).repartition(named="numbered").group_by_key().count(store="numbers")


def own_changelog(streams: StreamsBuilder, _: AppSettings) -> None:
    """A store whose changelog has a name of its own."""
    streams.stream("purchases", int).group_by_key().count(store=Store("totals", changelog="kept-by-name"))


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
        assert one["spec"]["config"] == topic_config(SETTINGS.kafka, topics[name].config)
        of_nodes = name == "storekeeper-members"
        assert one["spec"]["config"]["message.timestamp.type"] == ("LogAppendTime" if of_nodes else "CreateTime")
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


def test_all_names_begin_with_those_of_apps_and_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_CLUSTER", "till-team.query")
    points = topology_app("till-team.points", points_topology, title="Points")
    lines = list(printed(PlatformSettings.load(), [points], "commands"))
    topics = {words[words.index("--topic") + 1] for line in lines if (words := shlex.split(line))[0] == "kafka-topics"}
    assert topics == {
        *(
            "purchases",
            "till-team.points-dlq",
            "till-team.points-totals-changelog",
            "till-team.points-numbers-changelog",
        ),
        *("till-team.points-numbered-repartition", "till-team.points-gen-1-purchases-markers"),
        "till-team.points-gen-1-till-team.points-numbered-repartition-markers",
        *("till-team.query-members", "till-team.query-aliases"),
    }
    acls = list(bindings(line for line in lines if line.startswith("kafka-acls")))
    assert {acl.name for acl in acls if not acl.name.startswith("till-team.")} == {"purchases"}
    assert {acl.operation.name for acl in acls if acl.name == "purchases"} == {"READ", "CREATE"}
    allowed = [(acl.restype.name, acl.name) for acl in acls]
    for resource, name in (
        *(("TOPIC", topic) for topic in topics),
        ("GROUP", node_group("till-team.query", "a")),
        ("TRANSACTIONAL_ID", "till-team.points-gen-2-purchases-0"),
        ("TRANSACTIONAL_ID", cleanup_transaction("till-team.points-totals-changelog-g2")),
    ):
        assert any(kind == resource and name.startswith(beginning) for kind, beginning in allowed), name


def test_a_changelog_with_a_name_of_its_own_gets_rights_of_its_own() -> None:
    app = topology_app("points", own_changelog, title="Points")
    acls = bindings(line for line in printed(SETTINGS, [app], "commands") if line.startswith("kafka-acls"))
    allowed = {(acl.restype.name, acl.name, acl.operation.name) for acl in acls}
    assert {("TOPIC", "kept-by-name", "WRITE"), ("TRANSACTIONAL_ID", "kept-by-name", "WRITE")} <= allowed


def test_the_retention_of_tombstones_is_asked_of_global_tables_alone() -> None:
    app = topology_app("joined", topologies.joined, title="Joined")
    acls = bindings(line for line in printed(SETTINGS, [app], "commands") if line.startswith("kafka-acls"))
    asked = {acl.name for acl in acls if acl.operation.name == "DESCRIBE_CONFIGS"}
    assert asked == {"joined-items", "joined-out", "joined-"}


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
