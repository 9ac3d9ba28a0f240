"""The Kafka that all clients use: where it is, how to reach it, and how topics are made there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TIMES = "message.timestamp.type"
"""Kafka's name of the setting of a topic that says whose times its records have."""
KEPT_TIMES = "CreateTime"
"""Those that their producers gave them."""
_FACTOR = "replication.factor"
CLUSTER = "storekeeper"
"""The name of a cluster that has none of its own."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Kafka:
    """A Kafka, as the settings describe it. It holds no secret, so it may go to other processes.

    Attributes:
        bootstrap: the brokers, `host:port,…`.
        properties: the file with the properties of every client; see `storekeeper.kafka.properties`. None if there is
            none.
        topic_config: the configuration of each new topic, by Kafka's names, and `replication.factor`.
        makes_topics: whether topics may be made.
        cluster: the cluster's name, with which the names of its own topics and of all groups begin.
    """

    bootstrap: str
    properties: Path | None = None
    topic_config: Pairs = ()
    makes_topics: bool = True
    cluster: str = CLUSTER

    def __str__(self) -> str:
        return self.bootstrap


def replication_factor(kafka: Kafka) -> int:
    """How many copies a new topic has; -1 leaves it to the brokers."""
    return int(dict(kafka.topic_config).get(_FACTOR, -1))


def topic_config(kafka: Kafka, config: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a new topic: what it needs, and what the settings add to that.

    Its records keep their times unless `config` says otherwise: brokers may give them others by default.
    """
    added = {name: value for name, value in kafka.topic_config if name != _FACTOR}
    return {**added, TIMES: KEPT_TIMES, **config}
