"""A slow broker, as a consumer sees it: silence, then records; positions that move without any."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from harness.secured_broker import SecuredBroker
from storekeeper.changelog import bounded_reader
from storekeeper.changelog.bounded_reader import read_parts, read_range
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.connection import Kafka


@dataclass
class Sent:
    """A message, or silence after which the consumer is at `offset`."""

    at: int
    silent: bool = False
    failure: KafkaError | None = None
    of: str | None = "topic"

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return self.failure

    def topic(self) -> str | None:
        return self.of


class SlowConsumer:
    """Gives one message a poll, each as late as the last moment before patience ends."""

    def __init__(self, script: Iterator[Sent], clock: list[float]) -> None:
        self._script = script
        self._clock = clock
        self._position = -1001

    def assign(self, _: object) -> None:
        pass

    def close(self) -> None:
        pass

    def position(self, _: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(offset=self._position)]

    def poll(self, _: float) -> Sent | None:
        self._clock[0] += bounded_reader.PATIENCE_S - 1
        sent = next(self._script)
        self._position = max(self._position, sent.at if sent.silent else sent.at + 1)
        return None if sent.silent else sent

    def consume(self, _: int, timeout: float) -> list[Sent]:
        return []


def read(monkeypatch: pytest.MonkeyPatch, *script: Sent) -> list[int | None]:
    clock = [0.0]
    monkeypatch.setattr(bounded_reader, "_consumer", lambda *_: SlowConsumer(iter(script), clock))
    monkeypatch.setattr(bounded_reader, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    return [message.offset() for message in read_range(Kafka("nowhere:1"), "topic", 0, 0, 10)]


def test_a_kept_consumer_asks_once_for_the_leader_of_each_further_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Recorded(SlowConsumer):
        def list_topics(self, topic: str, timeout: float) -> None:
            calls.append(f"asks for {topic}")

        def assign(self, _: object) -> None:
            calls.append("is assigned")

        def unassign(self) -> None:
            calls.append("is kept")

    monkeypatch.setattr(bounded_reader, "_KEPT", {})
    monkeypatch.setattr(bounded_reader, "_consumer", lambda *_: Recorded(repeat(Sent(9)), [0.0]))
    for topic in ("new", "other", "other", "new"):
        [part] = read_parts(Kafka("nowhere:1"), topic, 0, 0, 10)
        assert [message.offset() for message in part] == [9]
    reads = " ".join(calls).removesuffix(" is kept").split(" is kept ")
    asked = "asks for other is assigned"
    assert reads == ["is assigned", asked, "is assigned", "is assigned"], "the first read of a topic takes a second"


def test_silence_is_no_end_and_offsets_without_records_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    script = [
        Sent(-1001, silent=True),
        Sent(0),
        Sent(1, silent=True),
        Sent(4, silent=True),
        Sent(7),
        Sent(10, silent=True),
    ]
    assert read(monkeypatch, *script) == [0, 7]


def test_a_record_behind_the_end_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, Sent(8), Sent(12)) == [8]


def test_silence_without_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokerUnavailableError, match="up to 10"):
        read(monkeypatch, Sent(3), *[Sent(-1001, silent=True)] * 3)


@pytest.mark.parametrize(
    ("code", "topic", "message"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, None, "the operation Read on group storekeeper-range"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic", "the operation Read on topic topic"),
    ],
)
def test_a_missing_acl_is_told_by_the_name_of_the_group_or_topic(
    monkeypatch: pytest.MonkeyPatch, code: int, topic: str | None, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(monkeypatch, Sent(3, failure=KafkaError(code), of=topic))


@pytest.mark.broker
def test_a_topic_that_acls_hide_is_told_at_once(secured_broker: SecuredBroker) -> None:
    secured_broker.broker.create_topic("range-closed", 1)
    kafka = secured_broker.with_certificate("stranger")
    refusal = "doesn't allow User:CN=stranger the operation Describe on topic range-closed"
    with pytest.raises(ConfigurationError, match=refusal):
        bounded_reader.stable_bounds(kafka, "range-closed", 0)
    with pytest.raises(ConfigurationError, match=refusal):
        list(bounded_reader.read_topic(kafka, "range-closed"))


def test_bounds_are_asked_for_through_a_client_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is new asks before it is connected, and waits until it asks again."""
    numbers = itertools.count(1)
    monkeypatch.setattr("storekeeper.changelog.log_bounds.offset_client", lambda *_, **__: next(numbers))
    monkeypatch.setattr(bounded_reader, "log_bounds", lambda client, *_: (client, client))
    assert [bounded_reader.stable_bounds(Kafka(f"kept:{port}"), "t", 0) for port in (1, 1, 2, 1)] == [
        (1, 1),
        (1, 1),
        (2, 2),
        (1, 1),
    ]
