"""Makes every client of Kafka, with settings that hold for all of them.

No client logs to standard error: what goes wrong is raised, or reported to a callback. A lost connection is tried again
at least every half second. Consumers belong to no group: their callers keep the positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

CONNECT_AT_ONCE: Mapping[str, str] = MappingProxyType({"enable.sparse.connections": "false"})
"""For the settings of a short-lived client: it connects to its brokers without delay.

A client connects to a broker on first use, and checks the connection 50 ms later at the earliest. A transactional
producer whose first check is too early checks again after half a second. A client that connects to all brokers at
start is ready within 10 ms. Long-lived clients of large clusters don't need it. The setting is internal to
librdkafka, not a documented one.
"""
_ALL = {"log_level": 0, "reconnect.backoff.max.ms": 500}
_NO_GROUP = {"enable.auto.commit": False, "enable.auto.offset.store": False}


def new_admin(bootstrap: str, settings: Mapping[str, Any] | None = None) -> AdminClient:
    """A client that describes and changes topics.

    Args:
        bootstrap: the brokers, `host:port,…`.
        settings: more of the client's settings, by librdkafka's names.
    """
    return AdminClient({**_ALL, "bootstrap.servers": bootstrap, **(settings or {})})


def new_producer(bootstrap: str, settings: Mapping[str, Any]) -> Producer:
    """A client that writes. The arguments are those of `new_admin`."""
    return Producer({**_ALL, "bootstrap.servers": bootstrap, **settings})


def new_consumer(bootstrap: str, name: str, settings: Mapping[str, Any]) -> Consumer:
    """A client that reads the partitions that are assigned to it. It commits no offsets.

    Args:
        bootstrap: the brokers, `host:port,…`.
        name: what it is for. Librdkafka requires a group's name; the group is never joined.
        settings: more of the client's settings, by librdkafka's names.
    """
    return Consumer(
        {**_ALL, **_NO_GROUP, "bootstrap.servers": bootstrap, "group.id": f"storekeeper-{name}", **settings}
    )
