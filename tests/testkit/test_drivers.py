"""The drivers' own rules. What they show of an app is compared by the tests of the apps, which run on both."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from harness.broker import Broker
from harness.waiting import eventually
from spark_apps.hadoop_export import HADOOP_EXPORT
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.ops.new_project.template.spark_apps.template_app import EVENTS, TEMPLATE_APP, Event
from storekeeper.testkit import plain_driver
from storekeeper.testkit.spark_driver import SparkDriver


def idle_driver(broker: Broker, folder: Path) -> SparkDriver:
    """A driver that is never run, and so needs no Spark."""
    return SparkDriver(TEMPLATE_APP, AppSettings(kafka_bootstrap=broker.bootstrap), Mock(), folder)


def test_an_app_that_is_no_topology_has_no_driver() -> None:
    with pytest.raises(ConfigurationError, match="hadoop_export is not a topology"):
        plain_driver(HADOOP_EXPORT)


@pytest.mark.broker
def test_a_driver_on_spark_leaves_no_topic_and_takes_nobodys(broker: Broker, tmp_path: Path) -> None:
    topics = Topics(broker.kafka)
    driver = idle_driver(broker, tmp_path / "run")
    assert topics.missing([EVENTS, "template_app-dlq"]) == []
    with pytest.raises(ConfigurationError, match=f"topics of template_app are there already.*{EVENTS}"):
        idle_driver(broker, tmp_path / "again")
    driver.close()
    own = [EVENTS, "template_app-dlq"]
    # The broker that is asked hears of a deletion a moment later.
    eventually(lambda: topics.missing(own) == own, 60, "the topics are gone")


@pytest.mark.broker
def test_the_clock_of_the_machine_is_nobodys_to_move(broker: Broker, tmp_path: Path) -> None:
    driver = idle_driver(broker, tmp_path / "run")
    driver.append(EVENTS, "a", Event(1))
    with pytest.raises(InvalidArgumentError, match="test such timers with plain_driver"):
        driver.advance(1)
    driver.close()
