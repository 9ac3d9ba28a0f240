"""What the tests share: drivers of apps, in plain Python and on real Spark."""

from __future__ import annotations

import pytest

from storekeeper.testkit.fixtures import kafka_bootstrap, spark_session, topology_driver

__all__ = ["kafka_bootstrap", "spark_session", "topology_driver"]


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers that the test kit sets."""
    config.addinivalue_line("markers", "spark: starts a real Spark session")
    config.addinivalue_line("markers", "broker: needs a Kafka broker, that of STOREKEEPER_KAFKA_BOOTSTRAP")
