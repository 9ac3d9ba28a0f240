"""Who may enter a secured Kafka, and what the others get to read."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from harness.authority import authority_pems, new_authority
from harness.secured_broker import USER, SecuredBroker
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.access import check_login, principal, refusal
from storekeeper.kafka.connection import Kafka

pytestmark = pytest.mark.broker

TIMEOUT_S = 60


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_user_with_a_password_is_let_in(secured_broker: SecuredBroker, mechanism: str) -> None:
    kafka = secured_broker.with_password(USER, mechanism=mechanism)
    assert check_login(kafka, TIMEOUT_S)
    assert principal(kafka) == f"User:{USER}"


def test_a_client_with_a_certificate_is_let_in(secured_broker: SecuredBroker) -> None:
    kafka = secured_broker.with_certificate("client")
    assert check_login(kafka, TIMEOUT_S)
    assert principal(kafka) == "User:CN=client"


def test_a_client_with_a_token_is_let_in(secured_broker: SecuredBroker) -> None:
    kafka = secured_broker.with_token("bearer")
    assert check_login(kafka, TIMEOUT_S)
    assert principal(kafka) == "the user of this login"


def test_a_wrong_password_is_refused_with_user_and_file(secured_broker: SecuredBroker) -> None:
    kafka = secured_broker.with_password("nobody", "a wrong one")
    with pytest.raises(
        ConfigurationError, match=r"refuses the login of User:nobody \(.*\): correct /.*nobody"
    ) as caught:
        check_login(kafka, TIMEOUT_S)
    assert "a wrong one" not in str(caught.value)


def test_an_expired_certificate_is_refused_with_its_time(secured_broker: SecuredBroker) -> None:
    kafka = secured_broker.with_certificate("old", age=dt.timedelta(days=4000))
    with pytest.raises(ConfigurationError, match=r"old\.pem is valid from .* to .*: have a new one signed"):
        check_login(kafka, TIMEOUT_S)


def test_a_certificate_of_a_foreign_authority_is_refused(secured_broker: SecuredBroker) -> None:
    kafka = secured_broker.with_certificate("foreign", new_authority("foreign", dt.datetime.now(dt.UTC)))
    with pytest.raises(ConfigurationError, match=r"refuses the certificate .*foreign\.pem of User:CN=foreign"):
        check_login(kafka, TIMEOUT_S)


def test_brokers_of_a_foreign_authority_are_not_trusted(secured_broker: SecuredBroker, tmp_path: Path) -> None:
    kafka = secured_broker.with_password(USER)
    assert kafka.properties is not None
    (tmp_path / "ca.pem").write_bytes(authority_pems(new_authority("ca", dt.datetime.now(dt.UTC)))[0])
    elsewhere = tmp_path / "kafka.properties"
    elsewhere.touch(mode=0o600)
    elsewhere.write_text(kafka.properties.read_text())
    with pytest.raises(ConfigurationError, match=r"isn't safe \(.*certificate verify failed"):
        check_login(replace(kafka, properties=elsewhere), TIMEOUT_S)


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._FAIL])
def test_a_failed_check_of_the_brokers_certificate_is_not_the_brokers_refusal(code: int) -> None:
    failed = KafkaError(code, "ssl://a:1/bootstrap: error:0A000086:SSL routines::certificate verify failed (after 5ms)")
    assert "isn't safe (error:0A000086" in str(refusal(Kafka("a:1"), [failed]))


def test_without_a_broker_nobody_is_refused() -> None:
    assert not check_login(Kafka("127.0.0.1:1"), 0.1)


def test_a_missing_acl_is_told_with_user_operation_and_topic(secured_broker: SecuredBroker) -> None:
    secured_broker.broker.create_topic("closed", 1)
    kafka = secured_broker.with_certificate("stranger")
    with pytest.raises(
        ConfigurationError, match=r"doesn't allow User:CN=stranger the operation DescribeConfigs on topic closed"
    ):
        Topics(kafka).rules(["closed"])
