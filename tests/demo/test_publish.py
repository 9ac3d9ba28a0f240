"""Publishing: each record once, in order per key, at a rate."""

from __future__ import annotations

from itertools import pairwise

import pytest

from demo.collect import read_topic
from demo.invoices import Record
from demo.publish import publish
from harness.broker import Broker

pytestmark = pytest.mark.broker


def _published(broker: Broker, records: list[Record], rate: int = 0) -> list[int]:
    seen: list[int] = []
    broker.create_topic(records[0].topic, config={"max.message.bytes": "4000000"})
    publish(broker.kafka, records, rate=rate, on_progress=seen.append)
    return seen


def test_each_record_arrives_once_and_in_order(broker: Broker) -> None:
    records = [Record("publish-all", b"STR%d" % (n % 7), b"%05d" % n) for n in range(3000)]
    assert _published(broker, records)[-1] == 3000
    found = read_topic(broker.kafka, "publish-all")
    assert sorted(record.value or b"" for record in found) == [b"%05d" % n for n in range(3000)]
    for first, second in pairwise(record for record in found if record.key == b"STR3"):
        assert (first.value or b"") < (second.value or b"")
        assert first.partition == second.partition


def test_odd_records_arrive_unharmed(broker: Broker) -> None:
    odd = [
        Record("publish-odd", None, b"{}"),
        Record("publish-odd", b"", b"{}"),
        Record("publish-odd", b"STR1", None),
        Record("publish-odd", b"STR1", b"x" * 1_500_000),
    ]
    _published(broker, odd)
    found = [(record.key, record.value) for record in read_topic(broker.kafka, "publish-odd")]
    assert len(found) == 4
    assert {(record.key, record.value) for record in odd} == set(found)


def test_a_rate_makes_small_steps(broker: Broker) -> None:
    records = [Record("publish-slowly", b"STR1", b"%d" % n) for n in range(40)]
    assert _published(broker, records, rate=100) == [10, 20, 30, 40]


def test_an_empty_topic_reads_as_nothing(broker: Broker) -> None:
    broker.create_topic("publish-nothing")
    assert read_topic(broker.kafka, "publish-nothing") == []
