"""Asking how many partitions there are: whatever fails, topics that come later are noticed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from state.cluster import partition_counts
from state.cluster.partition_counts import PartitionCounts
from tests.state.replicas.fake_log import FakeLog
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_counts, "_RETRY_S", 0.01)


@pytest.mark.parametrize("where", ["topics", "reader"])
def test_an_error_that_nobody_foresaw_does_not_end_the_asking(where: str) -> None:
    failures = [RuntimeError("once"), RuntimeError("twice")]
    log = FakeLog(partitions=3)

    def fail_at(place: str) -> None:
        if place == where and failures:
            raise failures.pop()

    def topics() -> Mapping[str, str]:
        fail_at("topics")
        return {"rewards": "t"}

    def reader() -> FakeLog:
        fail_at("reader")
        return log

    counts = PartitionCounts(topics, reader)
    counts.start()
    try:
        eventually(lambda: counts.known == {"rewards": 3}, 30, "the partitions are known")
    finally:
        counts.stop()
    assert not failures


def test_a_broker_that_is_away_is_waited_for() -> None:
    log = FakeLog(partitions=2)
    log.broker_up = False
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log)
    counts.ask_once(log)
    assert counts.known == {}
    log.broker_up = True
    counts.ask_once(log)
    assert counts.known == {"rewards": 2}


def test_a_topic_that_changed_is_asked_for_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_counts, "_ASK_AGAIN_AFTER", 10**9)
    log = FakeLog(partitions=2)
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log)
    counts.start()
    try:
        eventually(lambda: counts.known == {"rewards": 2}, 30, "the partitions are known")
        log.records[2] = []
        counts.ask_soon()
        eventually(lambda: counts.known == {"rewards": 3}, 30, "the partitions are known anew")
    finally:
        counts.stop()
