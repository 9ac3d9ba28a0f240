"""A store is cleaned up while its app writes to it: exactly the expired rows go, and an undo brings them back."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.broker import Broker
from harness.meanwhile import running
from harness.waiting import eventually
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.log_record import CleanupAction, LogRecord
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.cleanup import Cleanup, CleanupRefusedError
from storekeeper.cleanup.cleanup_plan import CleanupOptions, CleanupPlan
from storekeeper.cleanup.conditional_write import KafkaTentativeLog
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import DAY_MS, SystemClock

pytestmark = pytest.mark.broker

PARTITIONS = 4
HEADERS = ChangelogHeaders(1, 1, 1, {"pos": {0: (0, 10)}}).encode()
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "delete.retention.ms": str(10 * DAY_MS),
    "min.compaction.lag.ms": str(600_000),
}
QUICKLY = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
}
OPTIONS = CleanupOptions(90 * DAY_MS, canary_share=0.05, max_came_back_share=1.0, tombstones_per_s=20_000)


def key_of(number: int) -> bytes:
    return b"customer-%08d" % number


def producer(broker: Broker, **options: str) -> Producer:
    return Producer(
        {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "compression.type": "lz4"} | options
    )


def fill(broker: Broker, topic: str, keys: range, value: bytes, age_days: int) -> None:
    timestamp_ms = SystemClock().now_ms() - age_days * DAY_MS
    plain = producer(broker, **{"queue.buffering.max.messages": "500000", "compression.type": "none"})
    for number in keys:
        while True:
            try:
                plain.produce(topic, value, key_of(number), headers=HEADERS, timestamp=timestamp_ms)
            except BufferError:
                plain.poll(0.05)
            else:
                break
    assert plain.flush(120) == 0


def content(broker: Broker, topic: str) -> dict[bytes | None, bytes]:
    """What a reader of committed records makes of the changelog."""
    rows: dict[bytes | None, bytes] = {}
    changelog = Changelog(broker.kafka, topic)
    for partition in changelog.partitions:
        for record in changelog.scan(partition, *changelog.committed(partition)):
            if record.value is None:
                rows.pop(record.key, None)
            else:
                rows[record.key] = record.value
    return rows


@dataclass
class App:
    """Writes rows in transactions as a stream app does, and aborts some; knows what it has written for good."""

    broker: Broker
    topic: str
    keys: range
    written: dict[bytes, bytes] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        chance = random.Random(7)
        writer = producer(self.broker, **{"transactional.id": f"app-{self.topic}"})
        writer.init_transactions(30)
        number = 0
        while not self.stop.is_set():
            number += 1
            rows = {key_of(chance.choice(self.keys)): b"fresh-%d" % number for _ in range(10)}
            writer.begin_transaction()
            for key, value in rows.items():
                writer.produce(self.topic, value, key, headers=HEADERS)
            writer.flush(30)
            if chance.random() < 0.2:
                writer.abort_transaction(30)
                continue
            writer.commit_transaction(30)
            self.written |= rows
            self.stop.wait(0.005)


def cleanup_of(broker: Broker, topic: str, folder: Path) -> Cleanup:
    kept = CleanupFolder(folder, "s")
    clock = SystemClock()
    return Cleanup(broker.kafka, kept, "s", topic, clock=clock, wait=threading.Event().wait, times=clock.now_ms)


def test_exactly_the_expired_rows_go_while_the_app_refreshes_some_and_undo_brings_them_back(
    broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows, expired = (1_000_000, 100_000) if request.config.getoption("--long") else (20_000, 2_000)
    topic = "cleanup-under-writes"
    broker.create_topic(topic, PARTITIONS, COMPACTED)
    fill(broker, topic, range(expired), b"old", 100)
    fill(broker, topic, range(expired, rows), b"young", 1)
    cleanup = cleanup_of(broker, topic, tmp_path)
    app = App(broker, topic, range(rows))
    with running(app.run, app.stop):
        plan = cleanup.preview(OPTIONS)
        assert cleanup.archive(plan) == plan.expired_rows
        canary = cleanup.delete(plan, only_canary=True)
        assert 0 < canary.deleted + canary.came_back < expired * 0.1
        report = cleanup.delete(plan)
        written = len(app.written)
        eventually(lambda: len(app.written) > written + 100, 30, "the app writes rows again that were deleted")
    assert expired * 0.8 < plan.expired_rows <= expired
    assert (report.hit, report.foreign, report.untouched) == (0, 0, 0)
    assert report.refreshed > 0

    before = dict.fromkeys(map(key_of, range(expired)), b"old") | dict.fromkeys(
        map(key_of, range(expired, rows)), b"young"
    )
    kept = {key: value for key, value in before.items() if value == b"young"} | app.written
    assert content(broker, topic) == kept

    undone = cleanup.undo(plan)
    assert undone.deleted == 0
    assert undone.restored == len(before.keys() - kept.keys())
    assert content(broker, topic) == before | app.written


def test_a_killed_cleanup_goes_on_and_what_it_left_open_is_never_seen(broker: Broker, tmp_path: Path) -> None:
    topic = "cleanup-killed"
    broker.create_topic(topic, PARTITIONS, COMPACTED)
    fill(broker, topic, range(1000), b"old", 100)
    cleanup = cleanup_of(broker, topic, tmp_path)
    plan = cleanup.preview(OPTIONS)
    cleanup.archive(plan)
    canary = cleanup.delete(plan, only_canary=True)
    killed = KafkaTentativeLog(broker.kafka, topic).at(0, 0)
    killed.append([LogRecord(0, 0, key_of(number), None) for number in range(1000)])

    report = cleanup.delete(plan)
    assert (report.deleted, report.untouched, report.foreign) == (1000, 0, 0)
    assert canary.deleted < 1000
    assert content(broker, topic) == {}
    assert cleanup.delete(plan) == report
    assert cleanup.undo(plan).restored == 1000
    assert cleanup.undo(plan).restored == 1000
    assert len(content(broker, topic)) == 1000
    changelog = Changelog(broker.kafka, topic)
    back = [
        record
        for partition in changelog.partitions
        for record in changelog.scan(partition, plan.ends[partition], changelog.committed(partition)[1])
        if record.action_of(plan.cleanup_id) is CleanupAction.RESTORE
    ]
    assert len(back) == 1000
    assert all(record.timestamp_ms < plan.cutoff_ms and record.value == b"old" for record in back)


def after_canary(broker: Broker, topic: str, folder: Path, rows: int) -> tuple[Cleanup, CleanupPlan]:
    """A clean-up of old rows that has deleted its canary, a fifth of them."""
    fill(broker, topic, range(rows), b"old", 100)
    cleanup = cleanup_of(broker, topic, folder)
    plan = cleanup.preview(CleanupOptions(90 * DAY_MS, canary_share=0.2, max_came_back_share=0.1))
    cleanup.archive(plan)
    cleanup.delete(plan, only_canary=True)
    return cleanup, plan


def test_rows_that_come_back_to_the_canary_stop_the_cleanup(broker: Broker, tmp_path: Path) -> None:
    topic = "cleanup-canary"
    broker.create_topic(topic, PARTITIONS, COMPACTED)
    cleanup, plan = after_canary(broker, topic, tmp_path, 1000)
    fill(broker, topic, range(500), b"fresh", 0)
    with pytest.raises(CleanupRefusedError, match="TTL of 90 days is too short"):
        cleanup.delete(plan)
    assert sum(value == b"old" for value in content(broker, topic).values()) > 300
    assert cleanup.undo(plan).deleted == 0
    assert len(content(broker, topic)) == 1000


def test_rows_that_come_back_are_seen_after_compaction_has_removed_their_tombstones(
    broker: Broker, tmp_path: Path
) -> None:
    topic = "cleanup-compacted-canary"
    broker.create_topic(topic, 1, QUICKLY | {"delete.retention.ms": str(10 * DAY_MS)})
    cleanup, plan = after_canary(broker, topic, tmp_path, 100)
    fill(broker, topic, range(100), b"fresh", 0)

    def without_tombstones() -> bool:
        fill(broker, topic, range(1000, 1001), b"other", 0)  # closes the segments: compaction leaves open ones alone
        changelog = Changelog(broker.kafka, topic)
        return all(record.value is not None for record in changelog.scan(0, *changelog.committed(0)))

    eventually(without_tombstones, 90, "compaction has removed the tombstones")
    with pytest.raises(CleanupRefusedError, match="TTL of 90 days is too short"):
        cleanup.delete(plan)


def test_an_undo_that_comes_too_late_is_refused_and_its_archive_is_forgotten(broker: Broker, tmp_path: Path) -> None:
    topic = "cleanup-late"
    broker.create_topic(topic, PARTITIONS, COMPACTED)
    fill(broker, topic, range(10), b"old", 100)
    cleanup = cleanup_of(broker, topic, tmp_path)
    plan = cleanup.preview(CleanupOptions(90 * DAY_MS, canary_share=0, undo_ms=0))
    cleanup.archive(plan)
    cleanup.delete(plan)
    with pytest.raises(CleanupRefusedError, match="could be undone until"):
        cleanup.undo(plan)
    assert CleanupFolder(tmp_path, "s").forget_old(SystemClock().now_ms()) == [plan.cleanup_id]
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_store_that_gets_new_rows_for_ever_stays_as_large_as_it_is(
    broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows, fresh, rounds = (200_000, 20_000, 10) if request.config.getoption("--long") else (4000, 400, 3)
    topic = "cleanup-rounds"
    broker.create_topic(topic, PARTITIONS, QUICKLY)
    fill(broker, topic, range(rows), b"young" * 40, 1)
    cleanup = cleanup_of(broker, topic, tmp_path)
    size = _size(broker, topic)
    for number in range(rounds):
        first = rows + number * fresh
        fill(broker, topic, range(first, first + fresh), b"old" * 40, 100)
        plan = cleanup.preview(OPTIONS)
        cleanup.archive(plan)
        assert cleanup.delete(plan).deleted == fresh
        assert len(content(broker, topic)) == rows
        eventually(lambda: _compacted(broker, topic, size * 1.1), 90, f"round {number}: at most a tenth above {size}")
        assert _size(broker, topic) > 0.9 * size


def _compacted(broker: Broker, topic: str, limit: float) -> bool:
    fill(broker, topic, range(40), b"young" * 40, 0)  # closes the segments: compaction leaves open ones alone
    return _size(broker, topic) <= limit


def _size(broker: Broker, topic: str) -> int:
    """The bytes of the topic on disk."""
    found = 0
    for path in (broker.folder / "log").glob(f"{topic}-*/*.log"):
        with suppress(FileNotFoundError):  # compaction replaces files
            found += path.stat().st_size
    return found
