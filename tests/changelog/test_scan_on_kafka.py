"""Whether a real changelog still has all records of a range, before and after Kafka's cleaner has been there."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.changelog.scan import Changelog

pytestmark = [pytest.mark.broker]
TOPIC = "scanned-changelog"


def test_a_range_is_whole_until_compaction_takes_a_record(broker: Broker) -> None:
    broker.create_topic(TOPIC, 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": TOPIC})
    producer.init_transactions(30)

    def batch(value: bytes, *, aborted: bool = False) -> None:
        producer.begin_transaction()
        for key in (b"a", b"b"):
            producer.produce(TOPIC, key=key, value=value)
        if aborted:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)

    batch(b"1")
    batch(b"2", aborted=True)
    batch(b"3")
    log = Changelog(broker.kafka, TOPIC)
    start, end = log.committed(0)
    assert log.is_whole(0, start, end), "records of an aborted transaction are there, and count"

    broker.configure_topic(TOPIC, {"segment.ms": "100"})  # only now: until here, the cleaner may take nothing

    def is_compacted() -> bool:
        batch(b"4")  # a segment is rolled, and then compacted, only when something follows it
        return not log.is_whole(0, start, end)

    eventually(is_compacted, 120, "the cleaner takes a record of the range")
