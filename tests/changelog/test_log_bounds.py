from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.log_bounds import (
    END,
    FIRST,
    TopicAndPartition,
    known_offsets,
    log_bounds,
    log_offsets,
    offsets_of,
)
from storekeeper.kafka.connection import Kafka

NOT_TOLD = -1001
ROOT = Path(__file__).resolve().parents[2]


class ScriptedClient:
    """A client that tells what the test says, by what it is asked for."""

    def __init__(self, by_request: Mapping[int, Mapping[TopicAndPartition, int | KafkaError]]) -> None:
        self.by_request = by_request

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout == 7
        return [self.answer(one) for one in asked]

    def list_topics(self, topic: str, timeout: float) -> None:
        assert (topic, timeout) == ("t", 7)

    def answer(self, asked: TopicPartition) -> TopicPartition:
        found = self.by_request[asked.offset][asked.topic, asked.partition]
        if isinstance(found, int):
            return TopicPartition(asked.topic, asked.partition, found)
        told = TopicPartition(asked.topic, asked.partition, asked.offset)
        return cast("TopicPartition", Unknown(told.topic, told.partition, told.offset, found))


class Unknown:
    """A partition with an error, which the client's own class doesn't let one set."""

    def __init__(self, topic: str, partition: int, offset: int, error: KafkaError) -> None:
        self.topic, self.partition, self.offset, self.error = topic, partition, offset, error


def client(by_request: Mapping[int, Mapping[TopicAndPartition, int | KafkaError]]) -> Consumer:
    return cast("Consumer", ScriptedClient(by_request))


def test_bounds_are_what_is_told() -> None:
    assert log_bounds(client({FIRST: {("t", 1): 0}, END: {("t", 1): 9}}), "t", 1, 7) == (0, 9)


@pytest.mark.parametrize(
    "stale",
    [
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_a_client_with_old_metadata_fetches_it_and_asks_again(stale: int) -> None:
    class Stale(ScriptedClient):
        def list_topics(self, topic: str, timeout: float) -> None:
            super().list_topics(topic, timeout)
            self.by_request = {END: {("t", 0): 4}}

    behind = cast("Consumer", Stale({END: {("t", 0): KafkaError(stale)}}))
    assert log_offsets(behind, {("t", 0): END}, 7) == {("t", 0): 4}


def test_no_answer_is_no_offset() -> None:
    silent = client({END: {("t", 0): 4, ("t", 1): NOT_TOLD}})
    wanted = {("t", 0): END, ("t", 1): END}
    assert known_offsets(silent, wanted, 7) == {("t", 0): 4}
    with pytest.raises(KafkaException) as caught:
        log_offsets(silent, wanted, 7)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT


def test_no_answer_to_the_kept_client_means_that_no_broker_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = client({END: {("t", 0): NOT_TOLD}})
    monkeypatch.setattr("storekeeper.changelog.log_bounds.kept_offset_client", lambda *_: silent)
    monkeypatch.setattr("storekeeper.changelog.log_bounds._TIMEOUT_S", 7)
    with pytest.raises(BrokerUnavailableError, match="the offsets of t"):
        offsets_of(Kafka("broker:9092"), {("t", 0): END})


def test_a_partition_that_is_not_known_is_no_offset() -> None:
    gone = client({END: {("t", 0): 4, ("t", 1): KafkaError(KafkaError._UNKNOWN_PARTITION)}})
    wanted = {("t", 0): END, ("t", 1): END}
    assert known_offsets(gone, wanted, 7) == {("t", 0): 4}
    with pytest.raises(KafkaException) as caught:
        log_offsets(gone, wanted, 7)
    assert caught.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_nothing_is_asked_where_nothing_is_wanted() -> None:
    assert known_offsets(client({}), {}, 7) == {}


def test_nobody_asks_in_the_way_that_may_end_the_process() -> None:
    line = "from confluent_kafka.admin import OffsetSpec\n\nprint(OffsetSpec)\n"
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "--stdin-filename", "state/other.py", "-"]
    found = subprocess.run(command, cwd=ROOT, input=line, capture_output=True, text=True, check=False)
    assert "AdminClient.list_offsets may crash" in found.stdout
