"""Connects short-lived clients to their brokers without delay."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CONNECT_AT_ONCE: Mapping[str, str] = MappingProxyType({"enable.sparse.connections": "false"})
"""For the configuration of a client of confluent-kafka.

A client connects to a broker on first use, and checks the connection 50 ms later at the earliest. A transactional
producer whose first check is too early checks again after half a second. A client that connects to all brokers at
start is ready within 10 ms. Long-lived clients of large clusters don't need it. The setting is internal to
librdkafka, not a documented one.
"""
