"""The progress of replicas, as a tool that shows lag sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from confluent_kafka import KafkaException

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.kafka.connection import Kafka
from storekeeper.names import node_group
from storekeeper.node.replicas import group_offsets
from storekeeper.node.replicas.group_offsets import GroupOffsets
from storekeeper.protocol.replica_states import ReplicaId


def replica(topic: str, partition: int, offset: int | None) -> Any:
    return SimpleNamespace(topic=topic, replica_id=ReplicaId("s", partition), offset=offset)


@contextmanager
def running(offsets: GroupOffsets) -> Iterator[None]:
    offsets.start()
    try:
        yield
    finally:
        offsets.stop()


@pytest.mark.broker
def test_a_lag_tool_sees_how_far_a_node_is(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "COMMIT_EVERY_S", 0.05)
    broker.create_topic("followed", 3)
    held = [replica("followed", 0, 7), replica("followed", 1, None), replica("followed", 2, 0)]
    with running(GroupOffsets(broker.kafka, "lagging", lambda: held)):
        group = node_group(broker.kafka.cluster, "lagging")
        eventually(lambda: broker.committed(group, "followed", 3) == {0: 7, 2: 0}, 60, "the offsets are committed")
        held[0].offset = 9
        eventually(lambda: broker.committed(group, "followed", 3)[0] == 9, 60, "the next ones, too")
    admin = broker.admin()
    found = admin.describe_consumer_groups([group])[group].result(timeout=60)
    assert found.members == [], "replicas are not moved by Kafka"


def test_a_failure_is_logged_once_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "COMMIT_EVERY_S", 0.001)
    offsets = GroupOffsets(Kafka("127.0.0.1:1"), "n", list)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise KafkaException("no")

    monkeypatch.setattr(offsets, "commit", fail)
    with structlog.testing.capture_logs() as logs, running(offsets):
        eventually(lambda: len(calls) > 3, 30, "it goes on")
    assert [entry["log_level"] for entry in logs].count("warning") == 1
