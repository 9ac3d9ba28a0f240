"""Aliases through a real broker: what is published is read, by whoever comes and whoever watches."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.names import aliases_topic
from storekeeper.node.cluster.aliases import Alias, AliasReader, AliasWatch, publish_alias, read_aliases

pytestmark = pytest.mark.broker

SECRET = b"s" * 32


def _alias() -> Alias:
    store = f"rewards-{uuid.uuid4().hex[:8]}"
    return Alias(store, 2, f"{store}-g2", f"{store}-g1", 7)


def test_what_is_published_is_read(broker: Broker) -> None:
    alias = _alias()
    publish_alias(broker.kafka, SECRET, alias)
    later = replace(alias, topic=f"{alias.store}-g3", generation=3, at_ms=8)
    publish_alias(broker.kafka, SECRET, later)
    assert read_aliases(broker.kafka, SECRET)[alias.store] == later
    publish_alias(broker.kafka, SECRET, replace(alias, at_ms=3))
    assert read_aliases(broker.kafka, SECRET)[alias.store] == replace(alias, at_ms=9), "the clock went back"
    assert alias.store not in read_aliases(broker.kafka, b"another cluster's secret, as long")


def test_an_unexpected_error_does_not_end_a_watch(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    failures, read = [RuntimeError("once")], AliasReader.read

    def failing(reader: AliasReader, timeout_s: float) -> None:
        if failures:
            raise failures.pop()
        read(reader, timeout_s)

    monkeypatch.setattr(AliasReader, "read", failing)
    watch = AliasWatch(broker.kafka, SECRET)
    watch.start()
    try:
        eventually(lambda: watch.known is not None, 30, "the aliases are read after the error")
        assert failures == []
    finally:
        watch.stop()


def test_a_watch_hears_of_changes_and_passes_over_forgeries(broker: Broker) -> None:
    alias = _alias()
    watch = AliasWatch(broker.kafka, SECRET)
    watch.start()
    try:
        eventually(lambda: watch.known is not None, 30, "the aliases are read")
        forged = replace(alias, topic="somewhere-else", at_ms=99)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(
            aliases_topic(broker.kafka.cluster), forged.encode(), alias.store.encode(), headers={"signature": b"x" * 32}
        )
        assert producer.flush(10) == 0
        publish_alias(broker.kafka, SECRET, alias)
        eventually(lambda: alias.store in (watch.known or {}), 30, "the alias is heard")
        assert (watch.known or {})[alias.store] == alias
    finally:
        watch.stop()


def test_a_watch_hears_of_aliases_in_a_topic_that_was_made_anew(broker: Broker) -> None:
    """Without the first alias: the new topic is shorter than what the watch has read of the old one."""
    kafka = replace(broker.kafka, cluster="anew")
    before, after = _alias(), _alias()

    def published() -> bool:
        try:
            publish_alias(kafka, SECRET, after)
        except BrokerUnavailableError:
            return False
        return True

    publish_alias(kafka, SECRET, before)
    watch = AliasWatch(kafka, SECRET)
    watch.start()
    try:
        eventually(lambda: before.store in (watch.known or {}), 30, "the first alias is known")
        broker.delete_topic(aliases_topic(kafka.cluster))
        eventually(published, 30, "the second alias is published")
        eventually(lambda: watch.known == {after.store: after}, 30, "the second alias is known")
    finally:
        watch.stop()
