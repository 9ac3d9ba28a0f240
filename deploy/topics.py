"""The platform's topics: which there are, how they are configured, and making those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.errors import StartError
from deploy.settings import PlatformSettings
from deploy.waiting import eventually
from deploy.wanted_apps import wanted_apps
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from state.kafka import Kafka
from state.kafka_clients import new_admin, new_topic

POS = "pos"
SHIPMENT = "shipment"
LOYALTY = "loyalty"
HADOOP_SINK = "hadoop-sink"

_HOUR_MS = 3_600_000
_WEEK_MS = 7 * 24 * _HOUR_MS
_MIB = 1024 * 1024
MAX_MESSAGE_BYTES = 16 * _MIB
"""Largest record batch that the broker takes: 64 times the largest record."""
# A dead letter carries the whole record plus headers that say where it came from.
_DEAD_LETTER_HEADROOM_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The wanted state of a topic: `config` holds Kafka's topic settings."""

    name: str
    partitions: int
    config: Mapping[str, str]


def stream_topic(settings: PlatformSettings, name: str) -> TopicSpec:
    """A topic with time-based retention."""
    return TopicSpec(name, settings.topic_partitions, _delete_config(settings, MAX_MESSAGE_BYTES))


def dead_letter_topic_spec(settings: PlatformSettings, name: str) -> TopicSpec:
    """A topic of dead letters: whole records and where they came from."""
    config = _delete_config(settings, MAX_MESSAGE_BYTES + _DEAD_LETTER_HEADROOM_BYTES)
    return TopicSpec(name, settings.topic_partitions, config)


def compacted_topic(settings: PlatformSettings, name: str) -> TopicSpec:
    """A topic that keeps the newest record of each key: a changelog."""
    return TopicSpec(name, settings.topic_partitions, _compact_config(settings))


def all_topics(settings: PlatformSettings) -> tuple[TopicSpec, ...]:
    """Every topic of the platform, in the order of its apps."""
    return topics_of(settings, wanted_apps(settings).values())


def topics_of(settings: PlatformSettings, apps: Iterable[AppSpec]) -> tuple[TopicSpec, ...]:
    """The topics of some apps: sources, sinks, dead letters and changelogs, as the platform makes them."""
    app_settings = AppSettings()
    made: dict[str, TopicSpec] = {}
    for app in apps:
        for topic in (*app.sources(app_settings), *app.sinks(app_settings)):
            made.setdefault(topic, stream_topic(settings, topic))
        for topic in app.dead_letters(app_settings):
            made.setdefault(topic, dead_letter_topic_spec(settings, topic))
        for store in app.stores:
            made[store.changelog_topic] = compacted_topic(settings, store.changelog_topic)
    return tuple(made.values())


def ensure_topics(kafka: Kafka, specs: tuple[TopicSpec, ...], timeout_s: float = 30.0) -> list[str]:
    """Makes the topics that don't exist, and returns their names. Existing ones keep their configuration.

    Raises:
        StartError: the broker does not answer; a topic exists with another number of partitions (keys would move), or
            could not be made.
    """
    admin = new_admin(kafka)
    try:
        there = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        reason = error.args[0].str()
        msg = f"The Kafka broker does not answer ({reason}): start it, or correct STOREKEEPER_KAFKA_BOOTSTRAP."
        raise StartError(msg) from error
    missing = [spec for spec in specs if spec.name not in there]
    made = [
        spec.name
        for spec in missing
        if _make(admin, new_topic(kafka, spec.name, spec.partitions, spec.config), timeout_s)
    ]
    for spec in specs:
        found = _partitions(admin, spec.name, timeout_s)
        if found != spec.partitions:
            msg = (
                f"Topic {spec.name} has {found} partitions but {spec.partitions} are set: "
                f"set STOREKEEPER_TOPIC_PARTITIONS={found}, or begin in an empty run directory."
            )
            raise StartError(msg)
    return made


def _make(admin: AdminClient, wanted: NewTopic, timeout_s: float) -> bool:
    """Makes the topic. Returns False if it exists already: the broker may not have listed it yet."""
    try:
        admin.create_topics([wanted], operation_timeout=timeout_s)[wanted.topic].result(timeout=timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        msg = f"Topic {wanted.topic} could not be made ({error.args[0].str()}): see the broker's log."
        raise StartError(msg) from error
    return True


def _partitions(admin: AdminClient, name: str, timeout_s: float) -> int:
    """How many partitions a topic has; waits until the broker lists a new one."""
    found = 0

    def listed() -> bool:
        nonlocal found
        topic = admin.list_topics(timeout=timeout_s).topics.get(name)
        found = len(topic.partitions) if topic else 0
        return found > 0

    eventually(listed, timeout_s)
    return found


def _delete_config(settings: PlatformSettings, max_message_bytes: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "retention.ms": dict(settings.kafka.topic_config).get("retention.ms", str(_WEEK_MS)),
        "segment.bytes": str(64 * _MIB),
        "max.message.bytes": str(max_message_bytes),
    }


def _compact_config(settings: PlatformSettings) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "segment.bytes": str(16 * _MIB),
        "segment.ms": str(6 * _HOUR_MS),
        # A snapshot folds up to the last committed batch: records that a newer, not yet committed batch supersedes must
        # still be there when it reads.
        "min.compaction.lag.ms": str(_HOUR_MS // 6),
        # For this long a clean-up can be undone, and a node can be offline without missing a tombstone.
        "delete.retention.ms": str(_WEEK_MS),
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
    }
