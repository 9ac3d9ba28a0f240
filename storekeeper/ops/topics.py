"""The platform's topics: which there are, how they are configured, and making those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import described
from storekeeper.engine.own_topics import CHANGELOG_CONFIG, OwnTopic, own_topics_of
from storekeeper.generations.live import given_partitions, named_generations
from storekeeper.kafka.access import denial
from storekeeper.kafka.clients import new_admin, new_topic
from storekeeper.kafka.connection import Kafka
from storekeeper.names import aliases_topic, members_topic
from storekeeper.node.cluster.compacted_topic import COMPACTED
from storekeeper.node.cluster.heartbeat import HEARTBEAT_CONFIG
from storekeeper.ops.errors import StartError
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.waiting import eventually
from storekeeper.topology.layout import Layout

_HOUR_MS = 3_600_000
_WEEK_MS = 7 * 24 * _HOUR_MS
_MIB = 1024 * 1024
MAX_MESSAGE_BYTES = 16 * _MIB
"""Largest record batch that the broker takes: 64 times the largest record."""
# A dead letter carries the whole record plus headers that say where it came from.
_DEAD_LETTER_HEADROOM_BYTES = 64 * 1024


_COMPACTED = {
    **CHANGELOG_CONFIG,
    "segment.bytes": str(16 * _MIB),
    "segment.ms": str(6 * _HOUR_MS),
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
NONE_THERE: Mapping[str, int] = MappingProxyType({})
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The wanted state of a topic: `config` holds Kafka's topic settings."""

    name: str
    partitions: int
    config: Mapping[str, str]


def topics_of(
    settings: PlatformSettings, apps: Iterable[AppSpec], there: Mapping[str, int] = NONE_THERE
) -> tuple[TopicSpec, ...]:
    """The topics of some apps: sources, sinks, dead letters and changelogs, as the platform makes them.

    Changelogs are those of every generation that the configuration names. `there` has the numbers of partitions of
    topics that exist and keep theirs.

    Raises:
        NotCopartitionedError: topics that are joined exist with different numbers of partitions.
    """
    app_settings = AppSettings.load(run_dir=settings.run_dir)
    made: dict[str, TopicSpec] = {}

    def partitions(topic: str) -> int:
        return there.get(topic, settings.topic_partitions)

    for app in apps:
        for topic in (*app.sources(app_settings), *app.sinks(app_settings)):
            made.setdefault(topic, TopicSpec(topic, partitions(topic), _delete_config(settings, MAX_MESSAGE_BYTES)))
        for topic in app.dead_letter_topics:
            config = _delete_config(settings, MAX_MESSAGE_BYTES + _DEAD_LETTER_HEADROOM_BYTES)
            made.setdefault(topic, TopicSpec(topic, partitions(topic), config))
        for spec, of_generation in named_generations(app, app_settings):
            own = {topic.name: topic.partitions for topic in _own_topics(spec, of_generation, partitions)}
            for store in spec.stores:
                changelog = store.changelog_topic
                made[changelog] = TopicSpec(changelog, own.get(changelog, settings.topic_partitions), _COMPACTED)
    return tuple(made.values())


def requested_topics(
    settings: PlatformSettings, apps: Collection[AppSpec], there: Mapping[str, int] = NONE_THERE
) -> tuple[TopicSpec, ...]:
    """All topics that apps and nodes need, with those that they would make themselves.

    Leaves out those that migrations make, and those that apps make which are not topologies. Arguments and errors are
    those of `topics_of`.
    """
    made = {topic.name: topic for topic in topics_of(settings, apps, there)}
    app_settings = AppSettings.load(run_dir=settings.run_dir)
    generations = [generation for app in apps for generation in named_generations(app, app_settings)]
    for spec, of_generation in generations:
        for own in _own_topics(spec, of_generation, lambda topic: there.get(topic, settings.topic_partitions)):
            made.setdefault(own.name, TopicSpec(own.name, own.partitions, own.config))
    members, aliases = members_topic(settings.cluster), aliases_topic(settings.cluster)
    of_cluster = (TopicSpec(members, 1, {**COMPACTED, **HEARTBEAT_CONFIG}), TopicSpec(aliases, 1, COMPACTED))
    return (*made.values(), *of_cluster)


def _own_topics(app: AppSpec, settings: AppSettings, partitions: Callable[[str], int]) -> Iterable[OwnTopic]:
    if app.describe is None:
        return ()
    topology = described(app.name, app.describe, settings)
    read = {topic: partitions(topic) for topic in app.sources(settings)}
    layout = Layout(topology.plan(read, given_partitions(app.name, settings)))
    return own_topics_of(app.name, layout, settings.generation)


def topics_there(settings: PlatformSettings) -> Mapping[str, int]:
    """The numbers of partitions of existing topics. Empty for the platform's own broker: there the settings decide, and
    `ensure_topics` checks.

    Raises:
        StartError: no broker answers.
    """
    if settings.starts_broker:
        return NONE_THERE
    return {name: len(topic.partitions) for name, topic in _listed(new_admin(settings.kafka), _TIMEOUT_S).items()}


def make_topics(settings: PlatformSettings, apps: Iterable[AppSpec], without: Collection[str] = ()) -> list[str]:
    """Makes the topics of some apps that don't exist, except those named in `without`, and returns their names.

    Raises:
        NotCopartitionedError, ConfigurationError, StartError: as `topics_of` and `ensure_topics` raise them.
    """
    specs = topics_of(settings, apps, topics_there(settings))
    return ensure_topics(settings.kafka, tuple(topic for topic in specs if topic.name not in without))


def ensure_topics(kafka: Kafka, specs: tuple[TopicSpec, ...], timeout_s: float = _TIMEOUT_S) -> list[str]:
    """Makes the topics that don't exist, and returns their names. Existing ones keep their configuration.

    Raises:
        ConfigurationError: settings or ACLs let nobody make a topic that is missing.
        StartError: the broker does not answer; a topic exists with another number of partitions (keys would move), or
            could not be made.
    """
    admin = new_admin(kafka)
    there = _listed(admin, timeout_s)
    missing = [spec for spec in specs if spec.name not in there]
    new_topics = [new_topic(kafka, spec.name, spec.partitions, spec.config) for spec in missing]
    made = [topic.topic for topic in new_topics if _make(kafka, admin, topic, timeout_s)]
    for spec in specs:
        partitions = _partitions(admin, spec.name, timeout_s)
        if partitions != spec.partitions:
            raise StartError(
                f"Topic {spec.name} has {partitions} partitions but {spec.partitions} are set: "
                f"set `topic_partitions = {partitions}`, or begin in an empty run directory."
            )
    return made


def _listed(admin: AdminClient, timeout_s: float) -> dict[str, TopicMetadata]:
    try:
        return admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        reason = error.args[0].str()
        msg = f"The Kafka broker does not answer ({reason}): start it, or correct `kafka_bootstrap`."
        raise StartError(msg) from error


def _make(kafka: Kafka, admin: AdminClient, new: NewTopic, timeout_s: float) -> bool:
    """Makes the topic. Returns False if it exists already: the broker may not have listed it yet."""
    try:
        admin.create_topics([new], operation_timeout=timeout_s)[new.topic].result(timeout=timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        msg = f"Topic {new.topic} could not be made ({error.args[0].str()}): see the broker's log."
        raise denial(kafka, error.args[0], new.topic, "Create") or StartError(msg) from error
    return True


def _partitions(admin: AdminClient, name: str, timeout_s: float) -> int:
    """How many partitions a topic has; waits until the broker lists a new one."""
    partitions = 0

    def listed() -> bool:
        nonlocal partitions
        topic = admin.list_topics(timeout=timeout_s).topics.get(name)
        partitions = len(topic.partitions) if topic else 0
        return partitions > 0

    eventually(listed, timeout_s)
    return partitions


def _delete_config(settings: PlatformSettings, max_message_bytes: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "retention.ms": dict(settings.kafka.topic_config).get("retention.ms", str(_WEEK_MS)),
        "segment.bytes": str(64 * _MIB),
        "max.message.bytes": str(max_message_bytes),
    }
