"""Asking how many partitions there are: whatever fails, topics that come later are noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.waiting import eventually
from storekeeper.node.cluster import partition_counts
from storekeeper.node.cluster.aliases import Alias
from storekeeper.node.cluster.partition_counts import FILE_NAME, PartitionCounts
from tests.node.replicas.fake_log import FakeLog


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


def test_a_topic_that_was_recreated_and_accepted_is_asked_for_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(partition_counts, "_ASK_AGAIN_AFTER", 10**9)
    log = FakeLog(partitions=2)
    aliases: dict[str, Alias] = {}
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path, lambda: aliases)
    counts.start()
    try:
        eventually(lambda: partitions(counts) == {"rewards": 2}, 30, "the partitions are known")
        log.records[2] = []
        log.topic_id = "recreated"
        aliases.update(accepting("recreated"))
        counts.ask_soon()
        eventually(lambda: partitions(counts) == {"rewards": 3}, 30, "the partitions are known again")
    finally:
        counts.stop()


def accepting(topic_id: str) -> Mapping[str, Alias]:
    return {"rewards": Alias("rewards", 1, "t", None, 5, topic_id=topic_id)}


def recreate(log: FakeLog) -> None:
    log.topic_id, log.records = "another", {partition: [] for partition in range(5)}


def delete(log: FakeLog) -> None:
    log.gone = True


@pytest.mark.parametrize(("lose", "told"), [(recreate, "was deleted and recreated"), (delete, "was deleted: ")])
@pytest.mark.parametrize("aliases", [{}, None, accepting("a third one")])
def test_a_topic_that_is_lost_is_gone_by_as_it_was_over_restarts(
    lose: Callable[[FakeLog], None], told: str, aliases: Mapping[str, Alias] | None, tmp_path: Path
) -> None:
    log = FakeLog(partitions=2)
    PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path).ask_once(log)
    lose(log)
    for _ in range(2):
        counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path, lambda: aliases)
        counts.ask_once(log)
        found = counts.known["rewards"]
        assert (found.partitions, found.topic_id) == (2, "id-1")
        assert told in (found.lost or "")
        assert "storekeeper accept-topic" in (found.lost or "")


@pytest.mark.parametrize(
    ("aliases", "heard", "topic_id"),
    [
        ({}, {}, "id-1"),
        ({}, {"t": "id-1"}, "id-1"),
        ({}, {"t": "id-0"}, "id-0"),
        (accepting("id-0"), {}, "id-0"),
        (accepting("id-1"), {"t": "id-0"}, "id-1"),
    ],
)
def test_a_node_that_sees_a_topic_for_the_first_time_goes_by_what_the_cluster_knows(
    aliases: Mapping[str, Alias], heard: Mapping[str, str], topic_id: str, tmp_path: Path
) -> None:
    log = FakeLog(partitions=2)
    known: dict[str, Mapping[str, Alias] | None] = {"aliases": None}
    names: dict[str, Mapping[str, str] | None] = {"heard": None}
    counts = PartitionCounts(
        lambda: {"rewards": "t"}, lambda: log, tmp_path, lambda: known["aliases"], lambda: names["heard"]
    )
    counts.ask_once(log)
    known["aliases"] = aliases
    counts.ask_once(log)
    assert counts.topic_ids == {}, "the others may know of another topic"
    names["heard"] = heard
    counts.ask_once(log)
    assert counts.topic_ids == {"t": topic_id}
    lost = counts.known["rewards"].lost
    assert (lost is None) == (topic_id == "id-1")
    log.topic_id, log.records = "id-0", {0: []}
    counts.ask_once(log)
    count = counts.known["rewards"]
    assert (count.lost is None, count.partitions) == ((False, 2) if topic_id == "id-1" else (True, 1)), "it is back"


def test_a_topic_that_the_cluster_does_not_know_is_accepted_by_name(tmp_path: Path) -> None:
    log, aliases = FakeLog(partitions=2), dict[str, Alias]()
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path, lambda: aliases, lambda: {"t": "id-0"})
    counts.ask_once(log)
    assert counts.topic_ids == {"t": "id-0"}
    aliases.update(accepting("id-1"))
    counts.ask_once(log)
    assert counts.known["rewards"].lost is None


def test_a_topic_that_comes_back_is_not_lost(tmp_path: Path) -> None:
    log = FakeLog(partitions=2)
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
    for log.gone in (False, True, False):
        counts.ask_once(log)
        assert (counts.known["rewards"].lost is not None) == log.gone


def test_a_topic_that_was_never_seen_is_waited_for(tmp_path: Path) -> None:
    log = FakeLog()
    log.gone = True
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
    counts.ask_once(log)
    assert counts.known == {}


def test_a_topic_that_grows_keeps_its_first_number_over_restarts(tmp_path: Path) -> None:
    log = FakeLog(partitions=2)
    for partition in (2, 3):
        counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
        counts.ask_once(log)
        assert partitions(counts) == {"rewards": 2}
        log.records[partition] = []
        counts.ask_once(log)
        assert partitions(counts) == {"rewards": 2}


@pytest.mark.parametrize("text", [b'{"half', b"[]", b'{"t": 2}', b'{"t": {"partitions": 2}}'])
def test_a_file_of_topics_that_is_damaged_is_begun_anew(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)
    log = FakeLog(partitions=2)
    counts = PartitionCounts(lambda: {"rewards": "t"}, lambda: log, tmp_path)
    counts.ask_once(log)
    assert partitions(counts) == {"rewards": 2}
