"""Asking how many partitions there are: whatever fails, topics that come later are noticed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.waiting import eventually
from state.cluster import partition_counts
from state.cluster.partition_counts import FILE_NAME, PartitionCounts
from tests.state.replicas.fake_log import FakeLog


def partitions(counts: PartitionCounts) -> dict[str, int]:
    return {store: count.partitions for store, count in counts.known.items()}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_counts, "_RETRY_S", 0.01)


@pytest.mark.parametrize("where", ["topics", "reader"])
def test_an_error_that_nobody_foresaw_does_not_end_the_asking(where: str, tmp_path: Path) -> None:
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

    counts = PartitionCounts(topics, reader, tmp_path)
    counts.start()
    try:
        eventually(lambda: partitions(counts) == {"rewards": 3}, 30, "the partitions are known")
    finally:
        counts.stop()
    assert not failures


def test_a_broker_that_is_away_is_waited_for(tmp_path: Path) -> None:
    log = FakeLog(partitions=2)
    log.broker_up = False
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
    counts.ask_once(log)
    assert counts.known == {}
    log.broker_up = True
    counts.ask_once(log)
    assert partitions(counts) == {"rewards": 2}


def test_a_topic_that_was_made_anew_is_asked_for_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(partition_counts, "_ASK_AGAIN_AFTER", 10**9)
    log = FakeLog(partitions=2)
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
    counts.start()
    try:
        eventually(lambda: partitions(counts) == {"rewards": 2}, 30, "the partitions are known")
        log.records[2] = []
        log.topic_id = "made anew"
        counts.ask_soon()
        eventually(lambda: partitions(counts) == {"rewards": 3}, 30, "the partitions are known anew")
    finally:
        counts.stop()


def test_a_topic_that_grows_keeps_its_first_number_over_restarts(tmp_path: Path) -> None:
    log = FakeLog(partitions=2)
    for partition in (2, 3):
        counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
        counts.ask_once(log)
        assert partitions(counts) == {"rewards": 2}
        log.records[partition] = []
        counts.ask_once(log)
        assert partitions(counts) == {"rewards": 2}


def test_a_file_of_counts_that_is_damaged_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b'{"half')
    log = FakeLog(partitions=2)
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
    counts.ask_once(log)
    assert partitions(counts) == {"rewards": 2}
