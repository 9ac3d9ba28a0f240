"""The test kit's fixtures, for the tests of apps."""

from __future__ import annotations

import pytest

from spark_apps.testkit.fixtures import MakeDriver, spark_session, topology_driver
from tests.broker import Broker

__all__ = ["spark_session", "thorough_driver", "topology_driver"]


@pytest.fixture(scope="session")
def kafka_bootstrap(broker: Broker) -> str:
    """The session's broker."""
    return broker.bootstrap


@pytest.fixture
def thorough_driver(request: pytest.FixtureRequest, topology_driver: MakeDriver) -> MakeDriver:
    """As `topology_driver`, but on Spark only in `make test-long`: another test has the app on real Spark."""
    if request.node.callspec.params["topology_driver"] == "spark" and not request.config.getoption("--long"):
        pytest.skip("in `make test-long` only; here instead: test_running_platform.py has the app on Spark")
    return topology_driver
