"""The topic of aliases: written by the operator of a migration, read by nodes and tools."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicCollection

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.kafka.clients import new_admin, new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.names import aliases_topic
from storekeeper.node.cluster.aliases import Alias, AliasError, newest, opened_alias, signature_of
from storekeeper.node.cluster.compacted_topic import (
    SIGNATURE,
    WholeTopicReader,
    bytes_or_none,
    create_compacted_topic,
    signature_in,
)

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
                msg = f"no broker describes the topic {self._topic}"
                raise BrokerUnavailableError(msg)
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
            found = opened_alias(self._secret, bytes_or_none(message.key()), value, signature_in(message))
        except AliasError as refusal:
            log.warning("alias_refused", offset=message.offset(), error=str(refusal))
            return
        self.aliases = newest(self.aliases, found)


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
                    log.info("aliases_known", topics={name: found.topic for name, found in self._known.items()})
        finally:
            reader.close()
