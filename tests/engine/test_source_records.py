"""What a task reads of a topic on a real broker: all of its range, or an error that names what is missing."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import Producer

from harness.broker import Broker, start_broker
from harness.waiting import eventually
from storekeeper.apps.errors import LostInputError
from storekeeper.changelog import bounded_reader
from storekeeper.changelog.bounded_reader import stable_bounds
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.engine.source_records import SourceRecords
from storekeeper.kafka.connection import Kafka
from storekeeper.topology.records import RecordFields

pytestmark = pytest.mark.broker

NOW_MS = int(time.time() * 1000) - 3_600_000  # a topic would soon let older records go
NO_MORE: Mapping[str, str | int] = MappingProxyType({})


def producer(broker: Broker, more: Mapping[str, str | int] = NO_MORE) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **more})


def filled(broker: Broker, topic: str, count: int, size: int = 1) -> None:
    """A topic of one partition with `count` records."""
    broker.create_topic(topic, 1)
    writing = producer(broker)
    for number in range(count):
        writing.produce(topic, b"%d" % number * size, b"k", 0, timestamp=NOW_MS + number)
        writing.poll(0)
    assert not writing.flush(60)


def records(kafka: Kafka, topic: str, start: int, end: int) -> list[RecordFields]:
    return list(chain.from_iterable(SourceRecords(kafka, topic, 0, start, end)))


def offsets(kafka: Kafka, topic: str, start: int, end: int) -> list[int]:
    return [record[2] for record in records(kafka, topic, start, end)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The consumers that are made."""
    inner, found = bounded_reader._consumer, list[object]()

    def counted(*of: Any) -> object:
        found.append(inner(*of))
        return found[-1]

    monkeypatch.setattr(bounded_reader, "_KEPT", {})
    monkeypatch.setattr(bounded_reader, "_consumer", counted)
    return found


def test_a_record_is_all_that_it_was_written_with(broker: Broker) -> None:
    broker.create_topic("read-whole", 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    writing = producer(broker)
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("empty", b""), ("none", None), ("a", b"2")]
    writing.produce("read-whole", b"v", b"k", 0, timestamp=NOW_MS, headers=headers)
    writing.produce("read-whole", None, b"", 0, timestamp=2**62)
    writing.produce("read-whole", b"", None, 0, timestamp=-5)
    assert not writing.flush(30)
    read = SourceRecords(broker.kafka, "read-whole", 0, 0, 3)
    first, second, third = chain.from_iterable(read)
    assert first == ("read-whole", 0, 0, NOW_MS, b"k", b"v", [("a", b"1"), ("empty", b""), ("none", None), ("a", b"2")])
    assert second == ("read-whole", 0, 1, 2**62, b"", None, ())
    assert (third[2], third[4:]) == (2, (None, b"", ()))
    assert read.rows == 3


def test_a_kept_consumer_reads_any_range_as_often_as_it_is_asked(broker: Broker, made: list[object]) -> None:
    filled(broker, "read-again", 3000)
    filled(broker, "read-other", 100)
    rng = random.Random(1)
    for _ in range(60):
        topic, count = rng.choice([("read-again", 3000), ("read-other", 100)])
        start = rng.randrange(count)
        end = rng.randint(start, count)
        assert offsets(broker.kafka, topic, start, end) == list(range(start, end))
    assert len(made) == 1


def test_ranges_that_are_read_at_once_have_consumers_of_their_own(broker: Broker, made: list[object]) -> None:
    filled(broker, "read-left", 500)
    filled(broker, "read-right", 500)
    left, right = (SourceRecords(broker.kafka, topic, 0, 3, 500) for topic in ("read-left", "read-right"))
    mixed = [record[0] for pair in zip(*map(chain.from_iterable, (left, right)), strict=True) for record in pair]
    assert mixed == ["read-left", "read-right"] * 497
    assert len(made) == 2
    assert len(offsets(broker.kafka, "read-left", 0, 500)) == 500
    assert len(made) == 2


@pytest.fixture
def transactions(broker: Broker) -> Iterator[str]:
    """Committed 0 to 2, mark 3; aborted 4 to 6, mark 7; committed 8 and 9, mark 10; open 11 and 12."""
    topic = "read-transactions"
    broker.create_topic(topic, 1)
    writing = producer(broker, {"transactional.id": topic, "transaction.timeout.ms": 60_000})
    writing.init_transactions(30)
    for count in (3, -3, 2, 0):
        writing.begin_transaction()
        for number in range(abs(count) or 2):
            writing.produce(topic, b"%d" % number, b"k", 0)
        writing.flush(30)
        if count:
            writing.commit_transaction(30) if count > 0 else writing.abort_transaction(30)
    eventually(lambda: stable_bounds(broker.kafka, topic, 0) == (0, 11), 30, "the last mark is written")
    yield topic
    writing.abort_transaction(30)
    broker.delete_topic(topic)


def test_marks_and_aborted_records_are_passed_wherever_a_range_ends(broker: Broker, transactions: str) -> None:
    committed = [0, 1, 2, 8, 9]
    for start in range(11):
        for end in range(start, 12):
            found = offsets(broker.kafka, transactions, start, end)
            assert found == [offset for offset in committed if start <= offset < end], (start, end)


def test_what_compaction_has_removed_is_no_gap(broker: Broker) -> None:
    topic = "read-compacted"
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    broker.create_topic(topic, 1, config)
    writing = producer(broker)

    def is_compacted() -> bool:
        writing.produce(topic, b"v", b"roll", 0)  # a segment is closed by the next record
        writing.flush(30)
        return len(offsets(broker.kafka, topic, 0, 50)) < 5

    for number in range(50):
        writing.produce(topic, b"%d" % number, b"k", 0)
    assert not writing.flush(30)
    eventually(is_compacted, 120, "the log is compacted")
    end = stable_bounds(broker.kafka, topic, 0)[1]
    assert [offsets(broker.kafka, topic, start, start + 3) for start in range(0, 45, 3)] == [[]] * 15
    found = offsets(broker.kafka, topic, 0, end)
    assert found == sorted(set(found))
    assert found[-1] == end - 1


def test_records_that_are_gone_fail_the_batch_by_name(broker: Broker, made: list[object]) -> None:
    filled(broker, "read-lost", 2000, size=2000)
    reading = iter(SourceRecords(broker.kafka, "read-lost", 0, 0, 2000))
    assert next(reading)
    broker.delete_records("read-lost", 0, 1990)
    lost = r"topic read-lost begins at offset 1990 in partition 0, and is to be read from 0 to 2000: .*retention"
    with pytest.raises(LostInputError, match=lost):
        list(reading)
    with pytest.raises(LostInputError, match=lost):
        records(broker.kafka, "read-lost", 0, 2000)
    assert offsets(broker.kafka, "read-lost", 1990, 2000) == list(range(1990, 2000))
    assert len(made) == 3, "one whose read has failed is not kept"


def test_a_log_that_ends_too_early_fails_the_batch(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(broker, "read-short", 10)
    monkeypatch.setattr(bounded_reader, "PATIENCE_S", 0.5)
    with pytest.raises(BrokerUnavailableError, match="read-short-0 can't be read up to 11"):
        records(broker.kafka, "read-short", 0, 11)


def test_a_broker_that_restarts_in_the_middle_is_waited_for(tmp_path: Path, made: list[object]) -> None:
    broker = start_broker(tmp_path / "broker")
    try:
        filled(broker, "read-on", 20_000, size=500)
        assert len(offsets(broker.kafka, "read-on", 0, 10)) == 10
        reading = iter(SourceRecords(broker.kafka, "read-on", 0, 0, 20_000))
        found = list(next(reading))
        broker.kill()
        broker.start()
        found += chain.from_iterable(reading)
        assert [record[2] for record in found] == list(range(20_000))
        # What the kept consumer has heard while it had nothing to read is no failure of the next range.
        broker.restart()
        assert len(offsets(broker.kafka, "read-on", 5, 15_000)) == 14_995
        assert len(made) == 1
    finally:
        broker.stop()


@pytest.mark.parametrize(
    "mib", [200, pytest.param(5000, marks=pytest.mark.long("test_source_records.py with 200 MiB"))]
)
def test_large_values_go_through_in_little_memory(broker: Broker, mib: int) -> None:
    topic = f"read-large-{mib}"
    broker.create_topic(topic, 1, {"retention.bytes": "-1"})
    writing = producer(broker, {"queue.buffering.max.kbytes": 32 << 10, "compression.type": "lz4"})
    value = random.Random(1).randbytes(900_000)  # which Kafka can't compress
    for _ in range(mib):
        while True:
            try:
                writing.produce(topic, value, b"k", 0)
                break
            except BufferError:
                writing.poll(0.1)
    assert not writing.flush(120)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(len(part) for part in SourceRecords(broker.kafka, topic, 0, 0, mib)) == mib
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    broker.delete_topic(topic)
    assert grown_mib < 100
