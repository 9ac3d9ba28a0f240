"""What `storekeeper up` checks in a Kafka that it did not start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclBinding, AclOperation, AdminClient

from harness.acls import bindings
from harness.secured_broker import SecuredBroker
from storekeeper.apps.registry import app_named
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.kafka.check import check_clock, check_group, check_kafka, clock_ahead_ms
from storekeeper.ops.kafka.requests import printed
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import ensure_topics, requested_topics
from tests.integration.platform_process import PlatformProcess

APPS = [app_named("order_location")]

pytestmark = pytest.mark.broker


def settings_of(kafka: Kafka, **more: object) -> PlatformSettings:
    return PlatformSettings.load(kafka_bootstrap=kafka.bootstrap, kafka_properties=kafka.properties, **more)


def least(settings: PlatformSettings) -> list[AclBinding]:
    return list(bindings(line for line in printed(settings, APPS, "commands") if line.startswith("kafka-acls")))


@pytest.fixture
def platform(secured_broker: SecuredBroker) -> Iterator[PlatformSettings]:
    """A user with the least ACLs, whose topics are there."""
    settings = settings_of(secured_broker.with_certificate("platform"))
    secured_broker.allow(least(settings))
    ensure_topics(secured_broker.broker.kafka, requested_topics(settings, APPS))
    yield settings
    secured_broker.forbid_all("User:CN=platform")


def test_the_least_acls_are_enough(platform: PlatformSettings) -> None:
    found = list(check_kafka(platform, APPS))
    assert found[0].endswith("lets User:CN=platform in")
    assert found[1].startswith("the brokers answer the requests of Kafka 2.5")
    assert found[-1] == "transactions and groups work"
    assert "can be made" not in " ".join(found)
    assert check_clock(platform) == "the clock differs by 0.0 s from the brokers'"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (("TOPIC", "order_location-", "WRITE"), "the operation Write on topic order_location-dlq"),
        (("TOPIC", "storekeeper-aliases", "READ"), "the operation Read on topic storekeeper-aliases"),
        (
            ("TRANSACTIONAL_ID", "order_location-", "WRITE"),
            "the operation Write on transactional id order_location-check",
        ),
        (("GROUP", "storekeeper-", "READ"), "the operation Read on group storekeeper-check"),
    ],
)
def test_a_missing_acl_is_told_with_user_operation_and_resource(
    secured_broker: SecuredBroker, platform: PlatformSettings, wanted: tuple[str, str, str], says: str
) -> None:
    [doomed] = [acl for acl in least(platform) if (acl.restype.name, acl.name, acl.operation.name) == wanted]
    secured_broker.forbid(doomed)
    with pytest.raises(ConfigurationError, match=f"doesn't allow User:CN=platform {says}"):
        list(check_kafka(platform, APPS))


@pytest.mark.parametrize(
    "failure", [KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)), TimeoutError()], ids=repr
)
def test_a_coordinator_that_is_not_ready_is_asked_again(failure: Exception) -> None:
    admin = create_autospec(AdminClient, instance=True)
    busy, ready = Future[Any](), Future[Any]()
    busy.set_exception(failure)
    ready.set_result(Mock(authorized_operations=[AclOperation.READ]))
    admin.describe_consumer_groups.side_effect = [{"a": busy}, {"a": ready}]
    check_group(Kafka("broker:1"), admin, "a")
    assert admin.describe_consumer_groups.call_count == 2


def test_missing_topics_are_made_by_an_administrator_where_nobody_else_may(
    secured_broker: SecuredBroker,
) -> None:
    kafka = secured_broker.broker.kafka
    settings = settings_of(kafka, make_topics=False)
    with pytest.raises(ConfigurationError, match=r"topic user-events must be made, .*create-topics --dry-run"):
        list(check_kafka(settings, [app_named("session_tracker")]))


def test_topics_that_can_not_be_made_as_wanted_are_told_before_any_is(secured_broker: SecuredBroker) -> None:
    settings = settings_of(secured_broker.broker.kafka, topic_config="replication.factor=3")
    with pytest.raises(ConfigurationError, match=r"topic ticks.* can't be made \(.*[Rr]eplication.*`topic_config`"):
        list(check_kafka(settings, [app_named("ticks")]))
    assert "ticks" not in secured_broker.broker.admin().list_topics(timeout=30).topics


def test_up_ends_with_78_and_one_sentence_before_anything_is_started(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    kafka = secured_broker.with_password("nobody", "wrong")
    place = PlatformProcess.in_folder(
        tmp_path / "run", kafka_bootstrap=kafka.bootstrap, kafka_properties=str(kafka.properties)
    )
    done = place.call("up", "--quiet")
    assert done.returncode == 78, done.stderr
    assert done.stderr.startswith(f"storekeeper: Kafka at {kafka.bootstrap} refuses the login of User:nobody")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run" / "airflow").exists()
    assert subprocess.run(["pgrep", "-f", str(tmp_path / "run")], check=False, capture_output=True).stdout == b""


@pytest.mark.parametrize(
    ("times", "ahead_ms"), [((100, 105, 110), 0), ((100, 40, 110), 60), ((100, 170, 110), -60), ((100, 100, 100), 0)]
)
def test_clocks_differ_by_what_the_request_can_not_explain(times: tuple[int, int, int], ahead_ms: int) -> None:
    assert clock_ahead_ms(*times) == ahead_ms
