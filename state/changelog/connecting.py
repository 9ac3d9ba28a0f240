"""How clients that live for one task come to their brokers without waiting."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CONNECT_AT_ONCE: Mapping[str, str] = MappingProxyType({"enable.sparse.connections": "false"})
"""For the configuration of a client of confluent-kafka.

A client connects to a broker when it needs it, and looks whether it can 50 ms later at the soonest; a transactional
producer whose first look comes too early looks again after half a second. One that connects to all brokers from the
start is ready within 10 ms. Long-lived clients of large clusters don't need it. The setting is librdkafka's own, not
among its documented ones.
"""
