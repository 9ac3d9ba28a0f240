"""The broker for the test kit's fixtures, in the tests of apps."""

from __future__ import annotations

import pytest

from harness.broker import Broker


@pytest.fixture(scope="session")
def kafka_bootstrap(broker: Broker) -> str:
    """The session's broker."""
    return broker.bootstrap
