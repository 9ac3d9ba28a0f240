"""What an administrator is asked to make in Kafka, as text: topics for Kafka's own tool or for Strimzi, and ACLs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.kafka.access import principal
from storekeeper.kafka.connection import Kafka, replication_factor, topic_config
from storekeeper.ops.kafka.rights import acl_commands, rights_of
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import TopicSpec, requested_topics


def printed(settings: PlatformSettings, apps: Collection[AppSpec], form: str) -> Iterator[str]:
    """All that apps and nodes need: topics, then the least ACLs. `form` is `commands` or `strimzi`."""
    topics = requested_topics(settings, apps)
    yield from strimzi_topics(topics, settings.kafka) if form == "strimzi" else topic_commands(topics, settings.kafka)
    rights = rights_of(apps, AppSettings())
    # The ACLs are comments of the YAML: Strimzi has them in the resource of the user, which is the administrator's.
    yield from (
        f"# {command}" if form == "strimzi" else command for command in acl_commands(rights, _user(settings.kafka))
    )


def topic_commands(topics: Iterable[TopicSpec], kafka: Kafka) -> Iterator[str]:
    """The commands of Kafka's own tool that make topics that aren't there."""
    factor = replication_factor(kafka)
    copies = f" --replication-factor {factor}" if factor > 0 else ""
    for topic in topics:
        config = "".join(f" --config {name}={value}" for name, value in topic_config(kafka, topic.config).items())
        yield (
            f"kafka-topics --bootstrap-server $BOOTSTRAP --command-config $ADMIN --create --if-not-exists --topic "
            f"{shlex.quote(topic.name)} --partitions {topic.partitions}{copies}{config}"
        )


def strimzi_topics(topics: Iterable[TopicSpec], kafka: Kafka) -> Iterator[str]:
    """The same as resources for Strimzi's topic operator, one YAML document each."""
    factor = replication_factor(kafka)
    for topic in topics:
        config = topic_config(kafka, topic.config)
        lines = [
            "---",
            "apiVersion: kafka.strimzi.io/v1",
            "kind: KafkaTopic",
            "metadata:",
            f"  name: {resource_name(topic.name)}",
            "  labels: {strimzi.io/cluster: YOUR-CLUSTER}",
            "spec:",
            f"  topicName: {json.dumps(topic.name)}",
            f"  partitions: {topic.partitions}",
            *([f"  replicas: {factor}"] if factor > 0 else []),
            "  config:",
            *(f"    {name}: {json.dumps(value)}" for name, value in config.items()),
        ]
        yield "\n".join(lines)


def resource_name(topic: str) -> str:
    """A topic's name as Kubernetes allows it for a resource."""
    return "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in topic.lower())


def _user(kafka: Kafka) -> str:
    """The user that gets ACLs; a placeholder if only the brokers know it."""
    user = None if kafka.properties is None else principal(kafka)
    return user if user is not None and user.startswith("User:") else "User:STOREKEEPER"
