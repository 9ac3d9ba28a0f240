"""The test kit's fixtures, for the tests of apps."""

from __future__ import annotations

import pytest

from harness.broker import Broker
from spark_apps.testkit.fixtures import spark_session, topology_driver

__all__ = ["spark_session", "topology_driver"]


@pytest.fixture(scope="session")
def kafka_bootstrap(broker: Broker) -> str:
    """The session's broker."""
    return broker.bootstrap
