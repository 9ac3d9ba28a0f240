"""Makes every client of Kafka, with settings that hold for all of them.

No client logs to standard error: what goes wrong is raised, or reported to a callback. `log_level` lets one line pass,
that of a fatal error such as a fenced producer: it stays in the client's own queue. A lost connection is tried again
at least every half second. Consumers join no group: their callers keep the positions. Asking for a missing topic does
not make it. Brokers make it by default, with unsuitable settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.connection import Kafka, replication_factor, topic_config
from storekeeper.kafka.properties import read_properties

CONNECT_AT_ONCE: Mapping[str, str] = MappingProxyType({"enable.sparse.connections": "false"})
"""For the settings of a short-lived client: it connects to its brokers without delay.

A client connects to a broker on first use, and checks the connection 50 ms later at the earliest. A transactional
producer whose first check is too early checks again after half a second. A client that connects to all brokers at
start is ready within 10 ms. Long-lived clients of large clusters don't need it. The setting is internal to
librdkafka, not a documented one.
"""
_ALL = {"log_level": 0, "log.queue": True, "allow.auto.create.topics": False, "reconnect.backoff.max.ms": 500}
_NO_GROUP = {"enable.auto.commit": False, "enable.auto.offset.store": False}


def new_admin(kafka: Kafka, settings: Mapping[str, Any] | None = None) -> AdminClient:
    """A client that describes and changes topics.

    Args:
        kafka: the Kafka.
        settings: more of the client's settings, by librdkafka's names.

    Raises:
        ConfigurationError: the properties of the Kafka can't be used.
    """
    with _explained(kafka):
        return AdminClient(_settings(kafka, settings or {}))


def answers(kafka: Kafka, timeout_s: float = 2.0) -> bool:
    """Whether a broker answers at `kafka` within `timeout_s`."""
    try:
        new_admin(kafka).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def new_producer(kafka: Kafka, settings: Mapping[str, Any]) -> Producer:
    """A client that writes. Arguments and errors are those of `new_admin`."""
    with _explained(kafka):
        return Producer(_settings(kafka, settings))


def new_consumer(kafka: Kafka, name: str, settings: Mapping[str, Any]) -> Consumer:
    """A client that reads the partitions that are assigned to it. It commits no offsets.

    Args:
        kafka: the Kafka.
        name: what it is for. Librdkafka requires a group's name, which begins with the cluster's; the group is never
            joined.
        settings: more of the client's settings, by librdkafka's names.

    Raises:
        ConfigurationError: the properties of the Kafka can't be used.
    """
    with _explained(kafka):
        return Consumer(_settings(kafka, {**_NO_GROUP, "group.id": f"{kafka.cluster}-{name}", **settings}))


def new_group_committer(kafka: Kafka, group: str) -> Consumer:
    """A client that reads nothing and commits the offsets that it is given, as those of a group without members.

    Args:
        kafka: the Kafka.
        group: the group's name.

    Raises:
        ConfigurationError: the properties of the Kafka can't be used.
    """
    with _explained(kafka):
        return Consumer(_settings(kafka, {**_NO_GROUP, "group.id": group}))


def new_topic(kafka: Kafka, name: str, partitions: int, config: Mapping[str, str]) -> NewTopic:
    """What to ask an admin client for, to make a topic.

    Args:
        kafka: the Kafka.
        name: the topic's name.
        partitions: how many it gets.
        config: its configuration by Kafka's names; the settings add theirs, but replace none of it.

    Raises:
        ConfigurationError: the settings let nobody make topics.
    """
    if not kafka.makes_topics:
        raise ConfigurationError(
            f"topic {name} must be made, and make_topics is off: have an administrator do what "
            "`storekeeper create-topics --dry-run` prints"
        )
    return NewTopic(name, partitions, replication_factor(kafka), config=topic_config(kafka, config))


def _settings(kafka: Kafka, more: Mapping[str, Any]) -> dict[str, Any]:
    given = {} if kafka.properties is None else read_properties(kafka.properties)
    return {**_ALL, **given, "bootstrap.servers": kafka.bootstrap, **more}


@contextmanager
def _explained(kafka: Kafka) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        if kafka.properties is None:
            raise
        raise ConfigurationError(f"{kafka.properties} can't be used ({error.args[0].str()}): correct it") from error
