"""Reading a part of a partition on a real broker: transactions, aborted ones, cut logs, ends that never come."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer, TopicPartition

from harness.broker import Broker
from storekeeper.changelog import bounded_reader
from storekeeper.changelog.bounded_reader import committed_bounds, read_range, read_topic
from storekeeper.changelog.errors import BrokerUnavailableError, ChangelogMovedError
from storekeeper.errors import ChangelogError

pytestmark = pytest.mark.broker


def write(broker: Broker, topic: str) -> None:
    """Ten transactions of three records to each of two partitions, every other one aborted: marks at both ends."""
    broker.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(10):
        producer.begin_transaction()
        for place in range(6):
            producer.produce(topic, b"%d" % number, b"%d" % place, partition=place % 2)
        producer.flush(30)
        producer.commit_transaction(30) if number % 2 else producer.abort_transaction(30)
    # A commit is answered before its marks are written.
    assert [committed_bounds(broker.kafka, topic, at)[1] for at in range(2)] == [40, 40], "three records and a mark"


def test_pieces_in_any_order_add_up_to_the_whole(broker: Broker) -> None:
    write(broker, "range-pieces")
    start, end = committed_bounds(broker.kafka, "range-pieces", 1)
    assert (start, end) == (0, 40)  # ten times three records and a mark
    pieces = [read_range(broker.kafka, "range-pieces", 1, at, min(at + 7, end)) for at in range(0, end, 7)]
    # Backwards, so that each begins in front of where the one before it was.
    found = [[(message.offset(), message.value()) for message in piece] for piece in reversed(pieces)]
    wanted = [(4 * number + place, b"%d" % number) for number in range(1, 10, 2) for place in range(3)]
    assert [record for piece in reversed(found) for record in piece] == wanted
    assert [m.offset() for m in read_topic(broker.kafka, "range-pieces")] == 2 * [offset for offset, _ in wanted]


def test_open_and_aborted_records_are_there_for_those_who_ask(broker: Broker) -> None:
    write(broker, "range-all")
    found = read_range(broker.kafka, "range-all", 0, 0, 40, isolation="read_uncommitted")
    assert [message.offset() for message in found] == [offset for offset in range(40) if offset % 4 != 3]


def test_what_is_cut_off_missing_or_never_comes_is_told(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    write(broker, "range-cut")
    admin = broker.admin()
    for future in admin.delete_records([TopicPartition("range-cut", 0, 20)]).values():
        future.result(30)
    with pytest.raises(ChangelogMovedError, match="range-cut-0"):
        list(read_range(broker.kafka, "range-cut", 0, 5, 40))
    assert committed_bounds(broker.kafka, "range-cut", 0) == (20, 40)
    with pytest.raises(ChangelogError, match="no topic range-nowhere"):
        list(read_topic(broker.kafka, "range-nowhere"))
    monkeypatch.setattr(bounded_reader, "PATIENCE_S", 0.5)
    with pytest.raises(BrokerUnavailableError, match="can't be read up to 41"):
        list(read_range(broker.kafka, "range-cut", 0, 20, 41))
