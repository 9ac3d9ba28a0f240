"""Maps a store's name to its changelog: signed records on a compacted topic; the last one per store counts.

A migration rebuilds a store's rows in another topic. Nodes read these records and restore that topic beside the one
that serves. They switch over once it is ready everywhere. These records are the only switch.

| step       | `topic` | `previous_topic` | `prepare` | serves                                              |
|------------|---------|------------------|-----------|-----------------------------------------------------|
| prepare    | new     | old              | true      | old; new is restored beside it                      |
| cut over   | new     | old              | false     | new, once every partition is ready; old stays warm  |
| roll back  | old     | new              | false     | old; new stays warm                                 |
| retire     | new     | none             | false     | new; old is dropped                                 |
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import msgspec
import orjson
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicCollection

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.errors import InvalidArgumentError, InvalidNameError
from storekeeper.kafka.clients import new_admin, new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.names import aliases_topic, checked_name
from storekeeper.node.cluster.compacted_topic import (
    SIGNATURE,
    WholeTopicReader,
    bytes_or_none,
    create_compacted_topic,
    signature_in,
)
from storekeeper.node.security.cluster_secret import sign, verified

_PURPOSE = "alias"
_LONGEST_BYTES = 1 << 16
_HIGHEST_GENERATION = 1_000_000
_LONGEST_NAMES = 200
"""Store and topic together name a directory, see `storekeeper.names.variant_name`."""


class AliasError(InvalidArgumentError):
    """A record is not an alias of this cluster. Nodes ignore and log it."""


@dataclass(frozen=True, slots=True)
class Alias:
    """The changelog that stands behind a store's name.

    Attributes:
        store: the store's name, as callers ask for it.
        generation: the generation of the app that writes `topic`; 1 or more.
        topic: the changelog that serves, or with `prepare` the one to warm.
        previous_topic: the one that served before and stays warm, or with `prepare` the one that serves; None if
            there is none to keep.
        at_ms: when this was decided, epoch milliseconds; an alias with an earlier time than the known one is ignored.
        prepare: warm `topic`, and keep answering from `previous_topic`.
        topic_id: the broker's id of `topic` when the alias was published; None if there was no such topic. Nodes with
            rows of another topic of that name drop them.
    """

    store: str
    generation: int
    topic: str
    previous_topic: str | None
    at_ms: int
    prepare: bool = False
    topic_id: str | None = None

    def __post_init__(self) -> None:
        self._check_names()
        if not 1 <= self.generation <= _HIGHEST_GENERATION or self.at_ms < 0:
            msg = f"the alias of {self.store} has generation {self.generation} at {self.at_ms} ms: neither is below 1"
            raise AliasError(msg)
        if self.topic == self.previous_topic:
            raise AliasError(f"the alias of {self.store} names {self.topic} as the topic before itself")
        if self.prepare and self.previous_topic is None:
            msg = f"the alias of {self.store} prepares {self.topic}, but names no topic that serves meanwhile"
            raise AliasError(msg)

    def _check_names(self) -> None:
        topics = [topic for topic in (self.topic, self.previous_topic) if topic is not None]
        try:
            for name in (self.store, *topics):
                checked_name(name)
        except InvalidNameError as error:
            raise AliasError(str(error)) from error
        if len(self.store) + max(map(len, topics)) > _LONGEST_NAMES:
            msg = f"the names of store {self.store[:40]} and its topic have over {_LONGEST_NAMES} characters together"
            raise AliasError(msg)

    @property
    def serving_topic(self) -> str:
        """The topic that answers reads."""
        return self.previous_topic if self.prepare and self.previous_topic is not None else self.topic

    @property
    def warm_topic(self) -> str | None:
        """The topic to keep warm beside it; None if there is none."""
        return self.topic if self.prepare else self.previous_topic

    def encode(self) -> bytes:
        """The record's value."""
        return orjson.dumps(self)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads what `encode` wrote.

        Raises:
            AliasError: if it is not an alias.
        """
        if len(value) > _LONGEST_BYTES:
            raise AliasError(f"an alias is longer than {_LONGEST_BYTES} bytes")
        try:
            return msgspec.json.decode(value, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise AliasError(f"a record among the aliases can't be read: {type(error).__name__}") from error


def signature_of(secret: bytes, value: bytes) -> bytes:
    """The cluster's signature of an alias's value."""
    return sign(secret, _PURPOSE, value)


def opened_alias(secret: bytes, key: bytes | None, value: bytes, signature: bytes | None) -> Alias:
    """The alias in a record.

    Raises:
        AliasError: the signature is not the cluster's, the value is not an alias, or the key is another store's.
    """
    if signature is None or not verified(secret, _PURPOSE, value, signature):
        raise AliasError("an alias's signature is not this cluster's: it was made with another cluster secret")
    alias = Alias.decode(value)
    if key != alias.store.encode():
        raise AliasError("an alias lies under another store's key")
    return alias


def newest(known: Mapping[str, Alias], alias: Alias) -> Mapping[str, Alias]:
    """The aliases by store with `alias` added, unless it is older than the known one."""
    before = known.get(alias.store)
    return known if before is not None and alias.at_ms < before.at_ms else {**known, alias.store: alias}


log = structlog.get_logger(__name__)

_TIMEOUT_S = 10.0
_POLL_S = 0.2
_RETRY_S = 0.5


def publish_alias(kafka: Kafka, secret: bytes, alias: Alias) -> None:
    """Writes an alias and returns when the broker has it; makes the topic if there is none.

    Its time is always set after the previous alias's time, whatever the clock says: the alias published last counts.
    An old record that somebody copies behind it doesn't. It names the topic's present id.

    Raises:
        BrokerUnavailableError: no broker confirmed it. It may or may not be written. Publish it again.
    """
    known = read_aliases(kafka, secret).get(alias.store)
    if known is not None and known.at_ms >= alias.at_ms:
        alias = replace(alias, at_ms=known.at_ms + 1)
    alias = replace(alias, topic_id=topic_id_of(kafka, alias.topic))
    producer = new_producer(kafka, {"acks": "all", "message.timeout.ms": int(_TIMEOUT_S * 1000)})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    value = alias.encode()
    headers = {SIGNATURE: signature_of(secret, value)}
    topic, key = aliases_topic(kafka.cluster), alias.store.encode()
    producer.produce(topic, value, key, partition=0, headers=headers, on_delivery=delivered)
    left = producer.flush(_TIMEOUT_S + 1)
    if failed or left:
        reason = failed[0].str() if failed else f"no answer within {_TIMEOUT_S:.0f} s"
        msg = f"the alias of {alias.store} was not taken by the broker ({reason}): publish it again"
        raise BrokerUnavailableError(msg)
    log.info("alias_published", store=alias.store, topic=alias.topic, prepare=alias.prepare)


def topic_id_of(kafka: Kafka, topic: str) -> str | None:
    """The broker's id of a topic; None if there is none of that name.

    Raises:
        BrokerUnavailableError: no broker answers.
    """
    admin = new_admin(kafka)  # it lives until the answer is here
    try:
        future = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S)[topic]
        return str(future.result(timeout=_TIMEOUT_S + 1).topic_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        msg = f"the broker can't describe {topic} ({error.args[0].str()}): publish the alias again"
        raise BrokerUnavailableError(msg) from error


def read_aliases(kafka: Kafka, secret: bytes) -> Mapping[str, Alias]:
    """The current aliases by store; none if there is no such topic. Records that are not aliases are skipped.

    Raises:
        BrokerUnavailableError: no broker answers.
    """
    reader = AliasReader(kafka, secret)
    try:
        while not reader.caught_up:
            reader.read(_POLL_S)
        return reader.aliases
    finally:
        reader.close()


class AliasReader:
    """Reads the topic from its start and follows it. Belongs to one thread.

    Attributes:
        aliases: the last alias of each store. Never changed in place.

    Raises:
        BrokerUnavailableError: no broker answers.
    """

    def __init__(self, kafka: Kafka, secret: bytes) -> None:
        self._topic = aliases_topic(kafka.cluster)
        create_compacted_topic(kafka, self._topic, timeout_s=_TIMEOUT_S)
        self.aliases: Mapping[str, Alias] = {}
        self._secret = secret
        self._silent_s = 0.0
        self._reader = WholeTopicReader(kafka, self._topic, "aliases", _TIMEOUT_S)

    @property
    def caught_up(self) -> bool:
        """Whether all that was there at the start has been read."""
        return self._reader.caught_up

    def read(self, timeout_s: float) -> None:
        """Takes the records that arrive within `timeout_s`.

        Raises:
            BrokerUnavailableError: nothing was read at all for ten seconds after the start.
        """
        messages = self._reader.read(timeout_s)
        if not messages and not self.caught_up:
            self._silent_s += timeout_s
            if self._silent_s > _TIMEOUT_S:
                raise BrokerUnavailableError(f"no broker describes the topic {self._topic}")
        for message in messages:
            self._take(message)

    def close(self) -> None:
        """Frees the client."""
        self._reader.close()

    def _take(self, message: Message) -> None:
        value = bytes_or_none(message.value())
        if value is None:
            return
        try:
            alias = opened_alias(self._secret, bytes_or_none(message.key()), value, signature_in(message))
        except AliasError as refusal:
            log.warning("alias_refused", offset=message.offset(), error=str(refusal))
            return
        self.aliases = newest(self.aliases, alias)


class AliasWatch:
    """One thread that keeps reading. `known` may be read from any thread."""

    def __init__(self, kafka: Kafka, secret: bytes) -> None:
        self._kafka = kafka
        self._secret = secret
        self._known: Mapping[str, Alias] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aliases", daemon=True)

    @property
    def known(self) -> Mapping[str, Alias] | None:
        """The aliases by store; None until they have been read once."""
        return self._known

    def start(self) -> None:
        """Begins, and returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends. Safe to call twice, or without `start`."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except BrokerUnavailableError as error:
                log.warning("aliases_wait_for_broker", error=str(error))
            except Exception:
                log.exception("aliases_not_read")
            self._stop.wait(_RETRY_S)

    def _follow(self) -> None:
        reader = AliasReader(self._kafka, self._secret)
        try:
            while not self._stop.is_set():
                reader.read(_POLL_S)
                if reader.caught_up and reader.aliases is not self._known:
                    self._known = reader.aliases
                    log.info("aliases_known", topics={name: alias.topic for name, alias in self._known.items()})
        finally:
            reader.close()
