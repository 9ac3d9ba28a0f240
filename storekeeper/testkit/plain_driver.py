"""The driver of an app that needs neither Spark nor Kafka."""

from __future__ import annotations

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import described, described_with
from storekeeper.errors import ConfigurationError
from storekeeper.schemas.registry import MemoryRegistry
from storekeeper.topology import TopologyTestDriver
from storekeeper.topology.plan import Topology

PARTITIONS = 4
"""Partitions of every source topic in a test."""


def plain_driver(spec: AppSpec, settings: AppSettings | None = None) -> TopologyTestDriver:
    """A driver for an app, in this process.

    Raises:
        ConfigurationError: the app is not a topology.
    """
    topology = topology_of(spec, settings or AppSettings())
    return TopologyTestDriver(topology, partitions_of(topology), on_error=spec.on_error)


def topology_of(spec: AppSpec, settings: AppSettings) -> Topology:
    """The topology of an app. Without a schema registry in the settings, it has one in memory.

    Raises:
        ConfigurationError: the app is not a topology.
    """
    if spec.describe is None:
        raise ConfigurationError(f"{spec.name} is not a topology: make its spec with topology_app")
    own = spec.settings(settings)
    if settings.kafka_properties is not None:
        return described(spec.name, spec.describe, own)
    return described_with(MemoryRegistry(), spec.name, spec.describe, own)


def partitions_of(topology: Topology, partitions: int = PARTITIONS) -> dict[str, int]:
    """The number of partitions of each of its source topics in a test."""
    return {source.topic: partitions for sub in topology.sub_topologies for source in sub.sources}
