"""Topics on the broker: whether they exist, their ids, their partitions, and where these begin and end.

Checks that an app's topics still have the numbers of partitions that its state was made with.

A task keeps the state of one source partition, and a changelog's partition holds all rows of a key. With more
partitions a key may go to another one: its state would start empty there, and its old row would stay behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourceType,
    TopicMetadata,
)

from storekeeper.apps.errors import PartitionsChangedError
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import described, logged_stores
from storekeeper.changelog.committed_ends import committed_ends
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.log_bounds import END, FIRST, TopicAndPartition, log_offsets, offset_client, offsets_at
from storekeeper.changelog.position import Position
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings, TopicFacts
from storekeeper.clock import Clock
from storekeeper.engine.markers import Marker, known_markers
from storekeeper.engine.source_records import SourceRecords
from storekeeper.engine.topic_rules import FOREVER_MS, TopicRule
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.access import denial
from storekeeper.kafka.clients import new_admin, new_topic
from storekeeper.kafka.connection import KEPT_TIMES, TIMES, Kafka

PATIENCE_S = 20.0
"""How long a starting app or job waits for broker and topics: a broker starts in less."""
_REQUEST_TIMEOUT_S = 5.0
_RETRY_PAUSE_S = 0.25
_READS_AT_ONCE = 4
"""As many as there are consumers to keep; see `bounded_reader`."""
_MAX_AHEAD = ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms")
"""The limit of times ahead, by Kafka's name since 3.6 and before."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class TopicBounds:
    """The first and the end offset (exclusive) of every partition of some topics."""

    start: Position
    end: Position


class Topics:
    """Requests to the broker about topics. Thread-safe.

    Methods raise `BrokerUnavailableError` when it doesn't answer or doesn't know a topic that must exist, and
    `ConfigurationError` when ACLs don't allow it.
    """

    def __init__(self, kafka: Kafka, *, timeout_s: float = _REQUEST_TIMEOUT_S) -> None:
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._admin = new_admin(kafka)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that don't exist."""
        known = self._asked(lambda: self._admin.list_topics(timeout=self._timeout_s)).topics
        return [name for name in names if name not in known]

    def names(self) -> list[str]:
        """All existing topics."""
        return sorted(self._asked(lambda: self._admin.list_topics(timeout=self._timeout_s)).topics)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """The id of each existing topic. A topic that is deleted and created again gets another id."""
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s)
        return {name: str(self._asked(future.result, name).topic_id) for name, future in futures.items()}

    def partitions(self, name: str) -> list[int]:
        """The partitions of an existing topic."""
        return sorted(self._asked(lambda: self._metadata(name), name).partitions)

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each existing topic."""
        return {name: len(self.partitions(name)) for name in names}

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        """Where the partitions of existing inputs begin and end: as `end`."""
        listed = [(name, partition) for name in names for partition in self.partitions(name)]
        return TopicBounds(self._offsets(listed, FIRST), self._offsets(listed, END))

    def end(self, names: Iterable[str]) -> Position:
        """Where the partitions of existing inputs end, exclusive: before the first record of an open transaction."""
        listed = [(name, partition) for name in names for partition in self.partitions(name)]
        return self._offsets(listed, END)

    def committed_bounds(self, names: Iterable[str]) -> TopicBounds:
        """Where the partitions of existing topics begin, and where what is committed ends; see `committed_ends`.

        Raises:
            OpenTransactionError: a transaction stays open.
        """
        listed = [(name, partition) for name in names for partition in self.partitions(name)]
        return TopicBounds(self._offsets(listed, FIRST), position_of(committed_ends(self._kafka, listed)))

    def committed_end(self, names: Iterable[str]) -> Position:
        """The end of `committed_bounds`."""
        listed = [(name, partition) for name in names for partition in self.partitions(name)]
        return position_of(committed_ends(self._kafka, listed))

    def markers(self, names: Iterable[str], query_id: str) -> dict[tuple[str, int], Marker]:
        """What the tasks of a query have committed last, by topic and partition of their markers."""
        listed = [(name, partition) for name in names for partition in self.partitions(name)]
        return known_markers(self._kafka, listed, query_id.encode())

    def offsets_at(self, names: Iterable[str], timestamp_ms: int) -> Position:
        """The first offset of each partition whose record is of that time or later; its end if there is none."""
        listed = [(name, partition) for name in names for partition in self.partitions(name)]
        ends, offsets = self._offsets(listed, END), self.first_offsets_at(listed, timestamp_ms)
        return Position({
            topic: {partition: min(end, offsets.get((topic, partition), end)) for partition, end in partitions.items()}
            for topic, partitions in ends.offsets.items()
        })  # fmt: skip

    def first_offsets_at(self, places: Iterable[TopicAndPartition], timestamp_ms: int) -> dict[TopicAndPartition, int]:
        """The first offset of partitions whose record is of that time or later; those without one are left out."""
        wanted = dict.fromkeys(places, timestamp_ms)
        return self._asked(lambda: offsets_at(self._offset_client, wanted, self._timeout_s))

    def times(
        self, ranges: Mapping[TopicAndPartition, tuple[int, int]]
    ) -> dict[TopicAndPartition, list[tuple[int, int]]]:
        """The offsets and times of the committed records of some partitions, each from one offset to before another.

        Raises:
            LostInputError: the first ones are no longer there.
        """

        def read(place: TopicAndPartition) -> list[tuple[int, int]]:
            parts = SourceRecords(self._kafka, *place, *ranges[place])
            return [(offset, time_ms) for part in parts for _, _, offset, time_ms, *_ in part]

        with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
            return dict(zip(ranges, pool.map(read, ranges), strict=True))

    def rules(self, names: Iterable[str]) -> dict[str, TopicRule]:
        """Which records each of the existing topics accepts."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
        rules = {}
        for resource, future in futures.items():
            config = self._asked(future.result, str(resource.name), "DescribeConfigs")
            size, cleanup = config["max.message.bytes"].value, config["cleanup.policy"].value
            ahead = next((config[name].value for name in _MAX_AHEAD if name in config), FOREVER_MS)
            rules[str(resource.name)] = TopicRule(int(size), "compact" in cleanup, int(ahead))
        return rules

    def retention_ms(self, names: Iterable[str]) -> dict[str, int | None]:
        """How long each of the existing topics keeps records; None for ever."""
        kept = {name: int(value) for name, value in self._in_force(names, "retention.ms").items()}
        return {name: None if each_ms < 0 else each_ms for name, each_ms in kept.items()}

    def without_times(self, names: Iterable[str]) -> list[str]:
        """The existing topics in which brokers replace the times of records by those of their arrival."""
        return [name for name, times in self._in_force(names, TIMES).items() if times != KEPT_TIMES]

    def own_config(self, name: str) -> dict[str, str]:
        """The configuration of an existing topic itself, without defaults, by Kafka's names."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        future = self._admin.describe_configs([resource], request_timeout=self._timeout_s)[resource]
        entries = self._asked(future.result, name, "DescribeConfigs")
        return {
            key: str(entry.value)
            for key, entry in entries.items()
            # The client gives the number or the name.
            if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
        }

    def setting(self, name: str, key: str) -> str:
        """What is in force of an existing topic's configuration, by Kafka's name: its own, or the broker's default."""
        return self._in_force([name], key)[name]

    def configure(self, name: str, config: Mapping[str, str | None]) -> None:
        """Sets some of an existing topic's own configuration, by Kafka's names; None takes a default back."""
        changes = [
            ConfigEntry(
                key, value or "", incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
            )
            for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        futures = self._admin.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        self._asked(futures[resource].result, name, "AlterConfigs")

    def delete(self, names: Iterable[str]) -> None:
        """Deletes topics; ignores those that don't exist."""
        for future in self._admin.delete_topics(list(names), operation_timeout=self._timeout_s).values():
            self._done(future.result, KafkaError.UNKNOWN_TOPIC_OR_PART)

    def recreate(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Creates a topic that only an app itself uses; an existing one is deleted first."""
        wanted = new_topic(self._kafka, name, partitions, config)
        self.delete([name])
        self._await(name, there=False)
        made = self._admin.create_topics([wanted])
        self._done(made[name].result, None)
        self._await(name, there=True)

    def delete_records(self, below: Position) -> None:
        """Deletes the records of each partition below its offset."""
        wanted = [TopicPartition(topic, partition, offset) for topic, partition, offset in below]
        if wanted:
            for future in self._admin.delete_records(wanted, request_timeout=self._timeout_s).values():
                self._asked(future.result)

    def ensure_internal(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """Makes a topic that only an app itself uses, or gives it more partitions, if need be."""
        if self.missing([name]):
            wanted = new_topic(self._kafka, name, partitions, config)
            self._done(self._admin.create_topics([wanted])[name].result, KafkaError.TOPIC_ALREADY_EXISTS)
            self._await(name, there=True)
        elif len(self.partitions(name)) < partitions:
            more = self._admin.create_partitions([NewPartitions(name, partitions)])
            self._done(more[name].result, KafkaError.INVALID_PARTITIONS)

    def _in_force(self, names: Iterable[str], key: str) -> dict[str, str]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = self._admin.describe_configs(resources, request_timeout=self._timeout_s) if resources else {}
        return {
            str(resource.name): str(self._asked(future.result, str(resource.name), "DescribeConfigs")[key].value)
            for resource, future in futures.items()
        }

    def _metadata(self, name: str) -> TopicMetadata:
        metadata: TopicMetadata = self._admin.list_topics(name, timeout=self._timeout_s).topics[name]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        return metadata

    def _await(self, name: str, *, there: bool) -> None:
        """Waits until a change of the controller's has reached the broker, which takes a moment."""
        deadline_s = time.monotonic() + self._timeout_s
        while (not self.missing([name])) != there:
            if time.monotonic() > deadline_s:
                msg = f"the Kafka broker at {self._kafka} does not show topic {name}: is its controller up?"
                raise BrokerUnavailableError(msg)
            time.sleep(_RETRY_PAUSE_S)

    def _done(self, result: Callable[[], object], harmless: int | None) -> None:
        """Waits for a change. Ignores the error `harmless`: somebody else has just made the same change."""
        try:
            result()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() != harmless:
                msg = f"the Kafka broker at {self._kafka} refuses a topic of this app's own: {reason.str()}"
                raise ConfigurationError(msg) from error

    def _offsets(self, listed: list[tuple[str, int]], which: int) -> Position:
        wanted = dict.fromkeys(listed, which)
        return position_of(self._asked(lambda: log_offsets(self._offset_client, wanted, self._timeout_s)))

    @cached_property
    def _offset_client(self) -> Consumer:
        return offset_client(self._kafka)

    def _asked(self, ask: Callable[[], _Answer], name: str = "of this app", operation: str = "Describe") -> _Answer:
        try:
            return ask()
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            refusal = denial(self._kafka, reason, name, operation)
            if refusal is not None:
                raise refusal from error
            msg = f"the Kafka broker at {self._kafka} does not answer ({reason.name()}): start it, then try again"
            if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                msg = f"the Kafka broker at {self._kafka} knows no topic {name}: it was deleted, or is being made"
            raise BrokerUnavailableError(msg) from error


def position_of(offsets: Mapping[TopicAndPartition, int]) -> Position:
    """Offsets by partition as a position."""
    by_topic: dict[str, dict[int, int]] = {}
    for (name, partition), offset in offsets.items():
        by_topic.setdefault(name, {})[partition] = offset
    return Position(by_topic)


def await_topics(
    topics: Topics,
    names: Iterable[str],
    *,
    timeout_s: float | None = None,
    clock: Clock,
    wait: Callable[[float], object],
) -> None:
    """Waits until the broker answers and has all of `names`; retries for `timeout_s`, as it may just be starting.

    Raises:
        BrokerUnavailableError: it never answered.
        ConfigurationError: it answers, but topics are missing.
    """
    wanted = list(names)
    deadline = clock.monotonic_s() + (PATIENCE_S if timeout_s is None else timeout_s)
    while True:
        try:
            missing = topics.missing(wanted)
        except BrokerUnavailableError:
            if clock.monotonic_s() >= deadline:
                raise
        else:
            if not missing:
                return
            if clock.monotonic_s() >= deadline:
                msg = f"topics are missing: {', '.join(missing)}: make them (`storekeeper up` does), then start again"
                raise ConfigurationError(msg)
        wait(_RETRY_PAUSE_S)


def state_topics(spec: AppSpec, settings: AppSettings) -> tuple[str, ...]:
    """The topics whose number of partitions the app's state depends on.

    Sources and changelogs of an app that keeps a store; none of any other app. The changelogs of stores that no node
    serves are not among them: the app makes them itself, at its first start.
    """
    if not _keeps_state(spec, settings):
        return ()
    return tuple(dict.fromkeys([*spec.sources(settings), *(store.changelog_topic for store in spec.stores)]))


def _keeps_state(spec: AppSpec, settings: AppSettings) -> bool:
    if spec.describe is None:
        return bool(spec.stores)
    return bool(logged_stores(described(spec.name, spec.describe, settings)))


def counts_in(position: Position) -> dict[str, int]:
    """The number of partitions by topic in a position that names all of them, as Spark's offsets do."""
    return {topic: len(partitions) for topic, partitions in position.offsets.items()}


def check_partitions(app: str, made_with: Mapping[str, int], counts: Mapping[str, int]) -> None:
    """Checks that topics have the numbers of partitions that the app's state was made with.

    Args:
        app: The app's name.
        made_with: The number of partitions by topic that the state was made with. Other topics may have any number.
        counts: The number that the topics have now. Topics that are missing here are not checked.

    Raises:
        PartitionsChangedError: A topic has another number.
    """
    for topic, before in made_with.items():
        now = counts.get(topic, before)
        if now != before:
            raise PartitionsChangedError(
                f"topic {topic} has {now} partitions, but the state of {app} was made with {before}: keys would lose "
                "their state, so the app stopped before it processed any record. Kafka can't remove partitions: "
                "start the app under a new name, on new topics (docs/how-to/scale.md, 'More partitions')"
            )


def facts_of(topics: Mapping[str, str], settings: AppSettings) -> dict[str, TopicFacts]:
    """The topics of stores, as the broker describes them."""
    with closing(ChangelogReader(ReaderSettings(settings.kafka))) as reader:
        return {store: reader.facts(topic) for store, topic in topics.items()}
