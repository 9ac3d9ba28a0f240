"""The topics of the on-demand apps."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy import cli
from deploy.app_topics import all_topics
from deploy.settings import PlatformSettings
from harness.broker import Broker
from spark_apps.registry import ON_DEMAND_APPS, stores
from spark_apps.settings import AppSettings


def test_every_topic_of_every_app_is_made_once_and_changelogs_are_compacted() -> None:
    topics = all_topics(PlatformSettings.load(apps="all"))
    policies = {topic.name: topic.config["cleanup.policy"] for topic in topics}
    assert len(policies) == len(topics)
    assert policies.keys() >= {topic for app in ON_DEMAND_APPS.values() for topic in app.topics(AppSettings())}
    changelogs = {store.changelog_topic for store in stores().values()}
    assert {name for name, policy in policies.items() if policy == "compact"} == changelogs


def test_without_them_there_are_those_of_the_tills_alone() -> None:
    settings = PlatformSettings.load(apps="pos")
    topics = {topic.name: topic for topic in all_topics(settings)}
    assert topics.keys() == {
        *("pos", "shipment", "loyalty", "hadoop-sink", "pos-rewards-changelog", "pos-dlq", "hadoop-sink-dlq")
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
    told = CliRunner().invoke(cli.app, ["new-app", "page_visits"]).output
    (name,) = re.findall(r"STOREKEEPER_OWN_APPS=(\S+)", told)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("STOREKEEPER_KAFKA_BOOTSTRAP", broker.bootstrap)
    done = CliRunner().invoke(cli.app, ["create-topics", name])
    assert done.stdout.split() == ["page_visits-events", "page_visits-events-dlq", "page_visits-totals-changelog"]
    assert CliRunner().invoke(cli.app, ["create-topics", name]).stdout == ""
