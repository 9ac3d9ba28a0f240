"""Whether the brokers are recent enough, by the requests that they answer."""

from __future__ import annotations

import pytest

from harness.secured_broker import SecuredBroker
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.connection import Kafka
from storekeeper.ops.kafka import check
from storekeeper.ops.kafka.check import check_release, decide

KAFKA = Kafka("broker:1")
PREFIX = "APIVERSION [rdkafka#producer-1] [thrd:broker:1/bootstrap]: broker:1/bootstrap:   ApiKey "


def lines(*versions: int) -> list[str]:
    """What librdkafka logs as it connects to brokers that answer these versions of InitProducerId."""
    return [
        f"{PREFIX}{answered}"
        for version in versions
        for answered in ("Produce (0) Versions 0..2", f"InitProducerId (22) Versions 0..{version}")
    ]


def test_brokers_of_kafka_2_5_and_later_are_recent_enough() -> None:
    assert decide(KAFKA, lines(3)).startswith("the brokers answer the requests of Kafka 2.5")
    assert decide(KAFKA, lines(5, 12)).startswith("the brokers answer the requests of Kafka 2.5")


@pytest.mark.parametrize("versions", [(2,), (0,), (5, 2)])
def test_an_older_broker_is_refused(versions: tuple[int, ...]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^Kafka at broker:1 is older than 2\.5: its brokers must be upgraded"
    ):
        decide(KAFKA, lines(*versions))


def test_a_library_that_shows_no_versions_is_said_to_be_the_reason() -> None:
    assert decide(KAFKA, ["INIT librdkafka v9.0.0"]).startswith("the release of the brokers isn't known: ")


@pytest.mark.broker
def test_the_library_shows_the_versions_of_a_real_broker(
    secured_broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kafka in (secured_broker.broker.kafka, secured_broker.with_certificate("platform")):
        assert check_release(kafka, 30).startswith("the brokers answer the requests of Kafka 2.5")
    monkeypatch.setattr(check, "_NEEDED", 99)
    with pytest.raises(ConfigurationError, match="is older than"):
        check_release(secured_broker.broker.kafka, 30)
