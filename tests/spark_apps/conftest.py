"""The test kit's fixtures, for the tests of apps."""

from __future__ import annotations

from spark_apps.testkit.fixtures import spark_session, topology_driver

__all__ = ["spark_session", "topology_driver"]
