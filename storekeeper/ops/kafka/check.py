"""Checks a Kafka that the platform did not start, before anything is made or started there.

Whether a broker is recent enough. Kafka tells no client its release, only which versions of each request it answers.

Librdkafka learns them when it connects and decides by them what it can do, but shows them in its debug log alone. A
producer recovers from a lost id without an error since version 3 of InitProducerId (KIP-360). That came with Kafka 2.5,
later than anything else that apps, nodes and jobs ask for.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka.admin import AdminClient

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.access import check_login, denial, denied, principal
from storekeeper.kafka.clients import CONNECT_AT_ONCE, new_admin, new_producer, new_topic
from storekeeper.kafka.connection import Kafka
from storekeeper.names import members_topic
from storekeeper.node.cluster.compacted_topic import create_compacted_topic
from storekeeper.node.cluster.heartbeat import HEARTBEAT_CONFIG
from storekeeper.ops.errors import StartError
from storekeeper.ops.kafka.rights import Right, rights_of
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import TopicSpec, requested_topics, topics_there

_DEBUG = 7  # a level of syslog
_NEEDED, _RELEASE = 3, "2.5"
_ANSWERED = re.compile(r"ApiKey InitProducerId \(22\) Versions \d+\.\.(\d+)")


class _Lines(logging.Handler):
    """Keeps what a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


def check_release(kafka: Kafka, timeout_s: float) -> str:
    """Checks that the broker that answers first is recent enough. Returns what was found, a sentence.

    Raises:
        ConfigurationError: it is too old.
        KafkaException: no broker answers within `timeout_s`.
    """
    lines, log = _Lines(), logging.Logger(__name__)  # noqa: LOG001 (of this client alone: nobody else gets its lines)
    log.addHandler(lines)
    admin = new_admin(kafka, {"debug": "feature", "log_level": _DEBUG, "logger": log})
    admin.list_topics(timeout=timeout_s)
    admin.poll(0)
    return decide(kafka, lines.kept)


def decide(kafka: Kafka, lines: list[str]) -> str:
    """What the lines of a client's debug log say about the release. Result and errors are those of `check_release`."""
    versions = [int(match[1]) for line in lines if (match := _ANSWERED.search(line))]
    if not versions:
        return "the release of the brokers isn't known: this version of librdkafka doesn't show what they answer"
    if min(versions) < _NEEDED:
        msg = f"Kafka at {kafka} is older than {_RELEASE}: its brokers must be upgraded to {_RELEASE} or later"
        raise ConfigurationError(msg)
    return f"the brokers answer the requests of Kafka {_RELEASE}; no client learns their exact release"


_TIMEOUT_S = 30.0
_PAUSE_S = 0.5
_LARGEST_SKEW_MS = 60_000
_NOT_READY = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)


def check_kafka(settings: PlatformSettings, apps: Collection[AppSpec]) -> Iterator[str]:
    """Checks login, release, ACLs of topics, topics to be made, transactions and groups. Makes nothing.

    Yields what was found, a sentence each.

    Raises:
        ConfigurationError: something must be corrected first: a login, a certificate, an old broker, an ACL, a
            missing topic.
        StartError: no broker answers.
    """
    kafka = settings.kafka
    if not check_login(kafka, _TIMEOUT_S):
        raise StartError(f"Kafka at {kafka} doesn't answer: start it, or correct `kafka_bootstrap`.")
    yield f"Kafka at {kafka} lets {principal(kafka)} in"
    yield check_release(kafka, _TIMEOUT_S)
    admin, topics = new_admin(kafka), requested_topics(settings, apps, topics_there(settings))
    rights = rights_of(apps, AppSettings())
    missing = _check_allowed(kafka, admin, topics, rights)
    yield f"{len(topics) - len(missing)} topics are there, and the ACLs allow what is needed"
    if missing:
        _check_can_be_made(kafka, admin, missing)
        yield f"{len(missing)} topics are missing and can be made"
    for right in rights:
        if right.resource == "transactional-id":
            _check_transactions(kafka, f"{right.name}check", AppSettings().transaction_timeout_ms)
        elif right.resource == "group":
            check_group(kafka, admin, f"{right.name}check")
    yield "transactions and groups work"


def check_clock(settings: PlatformSettings) -> str:
    """Compares this machine's clock with that of the brokers, by a tombstone in the topic of heartbeats, which no node
    heeds. Makes that topic if there is none.

    Raises:
        ConfigurationError: the clocks differ by more than a minute.
    """
    kafka, topic = settings.kafka, members_topic(settings.cluster)
    create_compacted_topic(kafka, topic, timeout_s=_TIMEOUT_S, config=HEARTBEAT_CONFIG)
    placed: list[Message] = []
    producer = new_producer(kafka, {"acks": "1", "linger.ms": 0, **CONNECT_AT_ONCE})
    begun_ms = _now_ms()
    producer.produce(topic, None, b"clock", partition=0, on_delivery=lambda _, message: placed.append(message))
    producer.flush(_TIMEOUT_S)
    if not placed or placed[0].error() is not None:
        raise StartError(f"Kafka at {kafka} accepts no record for {topic}: see the log of the brokers.")
    kind, appended_ms = placed[0].timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        return f"the clocks were not compared: {topic} doesn't keep the brokers' times"
    ahead_ms = clock_ahead_ms(begun_ms, appended_ms, _now_ms())
    if abs(ahead_ms) > _LARGEST_SKEW_MS:
        msg = f"the clock of this machine is {ahead_ms / 1000:+.0f} s from that of Kafka at {kafka}: set both by NTP"
        raise ConfigurationError(msg)
    return f"the clock differs by {abs(ahead_ms) / 1000:.1f} s from the brokers'"


def clock_ahead_ms(begun_ms: int, appended_ms: int, done_ms: int) -> int:
    """How far this machine's clock is ahead of a broker's, at least. 0 if the broker's time lies within the request.

    Args:
        begun_ms: when the request began, by this machine's clock.
        appended_ms: when the broker handled it, by its own clock.
        done_ms: when the answer was there, by this machine's clock.
    """
    return max(0, begun_ms - appended_ms) - max(0, appended_ms - done_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _check_allowed(
    kafka: Kafka, admin: AdminClient, topics: Iterable[TopicSpec], rights: Collection[Right]
) -> list[TopicSpec]:
    """Checks what may be done with each existing topic. Returns those that don't exist."""
    by_name = {topic.name: topic for topic in topics}
    answers = admin.describe_topics(
        TopicCollection(list(by_name)), include_authorized_operations=True, request_timeout=_TIMEOUT_S
    )
    missing = []
    for name, answer in answers.items():
        needed = _needed(name, rights)
        try:
            described = answer.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                missing.append(by_name[name])
                continue
            raise denial(kafka, error.args[0], name, needed[0]) or error from error
        allowed = {_plain(one.name) for one in described.authorized_operations or ()}
        for operation in needed:
            if _plain(operation) not in allowed and operation != "Create":
                raise denied(kafka, "topic", name, operation)
    return missing


def _needed(topic: str, rights: Iterable[Right]) -> list[str]:
    """What must be allowed with a topic."""
    return [
        operation
        for right in rights
        if right.resource == "topic" and (topic == right.name or (right.prefixed and topic.startswith(right.name)))
        for operation in right.operations
    ]


def _check_can_be_made(kafka: Kafka, admin: AdminClient, topics: Iterable[TopicSpec]) -> None:
    new_topics = [new_topic(kafka, topic.name, topic.partitions, topic.config) for topic in topics]
    for name, answer in admin.create_topics(new_topics, validate_only=True, request_timeout=_TIMEOUT_S).items():
        try:
            answer.result(_TIMEOUT_S)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                msg = f"topic {name} can't be made ({reason.str()}): correct `topic_config`"
                raise denial(kafka, reason, name, "Create") or ConfigurationError(msg) from error


def _check_transactions(kafka: Kafka, name: str, timeout_ms: int) -> None:
    settings = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, **CONNECT_AT_ONCE}
    producer = new_producer(kafka, settings)
    try:
        producer.init_transactions(_TIMEOUT_S)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        msg = (
            f"Kafka at {kafka} can't begin a transaction ({reason.str()}): its brokers must be 2.5 or later, its topic "
            "__transaction_state must have enough replicas in sync, and its transaction.max.timeout.ms must be at "
            "least `transaction_timeout_ms`"
        )
        raise denial(kafka, reason, name, "Write") or ConfigurationError(msg) from error


def check_group(kafka: Kafka, admin: AdminClient, name: str) -> None:
    """Checks that offsets of a group may be committed; a consumer needs its group even if it never joins it.

    Raises:
        ConfigurationError: they may not.
        StartError: the brokers find no coordinator for it.
    """
    deadline_s = time.monotonic() + _TIMEOUT_S
    while (allowed := _allowed_with(kafka, admin, name)) is None:
        if time.monotonic() >= deadline_s:
            raise StartError(f"Kafka at {kafka} has no coordinator for group {name}: see the log of the brokers.")
        time.sleep(_PAUSE_S)
    if "READ" not in allowed:
        raise denied(kafka, "group", name, "Read")


def _allowed_with(kafka: Kafka, admin: AdminClient, group: str) -> set[str] | None:
    """What may be done with a group; None while its coordinator isn't ready, as shortly after a broker has started.

    An old broker that never had a group makes the topic of offsets meanwhile, and answers nothing.
    """
    asked = admin.describe_consumer_groups([group], include_authorized_operations=True, request_timeout=_TIMEOUT_S)
    try:
        described = asked[group].result(_TIMEOUT_S)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() in _NOT_READY:
            return None
        raise denial(kafka, reason, group, "Read") or error from error
    except TimeoutError:
        return None
    return {one.name for one in described.authorized_operations or ()}


def _plain(operation: str) -> str:
    """The name of an operation, as ACLs and as the client's library write it."""
    return operation.replace("_", "").lower()
