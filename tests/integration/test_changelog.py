"""Reader and partitioner against a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from harness.broker import Broker
from harness.node_process import COMPACTED, HEADERS, write
from harness.waiting import eventually
from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.reader import ChangelogReader, ReaderSettings, TopicFacts
from storekeeper.errors import ChangelogError
from storekeeper.kafka.connection import Kafka

pytestmark = pytest.mark.broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name
    broker.create_topic(name, config=COMPACTED)
    return str(name)


@pytest.fixture
def reader(broker: Broker) -> Iterator[ChangelogReader]:
    made = ChangelogReader(ReaderSettings(broker.kafka))
    yield made
    made.close()


def read_to_end(reader: ChangelogReader, partitions: set[int]) -> dict[int, list[PartitionBatch]]:
    """Every batch by partition until each has reached its end."""
    found: dict[int, list[PartitionBatch]] = {partition: [] for partition in partitions}
    while partitions:
        for batch in reader.read(10):
            found[batch.partition].append(batch)
            if batch.end_reached:
                partitions = partitions - {batch.partition}
    return found


def test_what_is_written_is_read_where_the_partitioner_says(
    broker: Broker, topic: str, reader: ChangelogReader
) -> None:
    rows: list[tuple[bytes, bytes | None]] = [(b"k%d" % number, b"v%d" % number) for number in range(200)]
    write(broker, topic, [*rows, (b"k7", None)])
    for partition in range(4):
        reader.add(topic, partition, 0)
    seen: list[tuple[bytes | None, bytes | None]] = []
    for partition, batches in read_to_end(reader, set(range(4))).items():
        for message in (message for batch in batches for message in batch.messages):
            assert partition == partition_for(message.key() or b"", 4)
            assert message.headers() == HEADERS.encode()
            seen.append((message.key(), message.value()))
    assert sorted(seen, key=str) == sorted([*rows, (b"k7", None)], key=str)
    assert seen.index((b"k7", b"v7")) < seen.index((b"k7", None))


def test_the_position_goes_past_a_gap_at_the_end(broker: Broker, reader: ChangelogReader) -> None:
    broker.create_topic("transactional", partitions=1, config=COMPACTED)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("transactional", b"kept" if commit else b"aborted", b"k")
        producer.commit_transaction(30) if commit else (producer.flush(10), producer.abort_transaction(30))
    reader.add("transactional", 0, 0)
    batches = read_to_end(reader, {0})[0]
    assert [message.value() for batch in batches for message in batch.messages] == [b"kept"]
    assert batches[-1].next_offset == 4, "two records and two markers"


def test_a_partition_that_is_added_again_goes_on_where_it_is_told(
    broker: Broker, topic: str, reader: ChangelogReader
) -> None:
    write(broker, topic, [(b"k%d" % number, b"x" * 100) for number in range(40_000)])
    reader.add(topic, 0, 0)
    reader.add(topic, 1, 0)
    assert reader.read(10)
    for offset in (5, 1_000, 17):
        reader.remove(topic, 0)
        reader.add(topic, 0, offset)
        first = next(batch for _ in range(100) for batch in reader.read(10) if batch.partition == 0)
        assert first.messages[0].offset() == offset, "nothing fetched before is handed out"


def test_a_topic_made_anew_has_another_id(broker: Broker, topic: str, reader: ChangelogReader) -> None:
    before = reader.facts(topic)
    assert (before.partitions, before.delete_retention_ms) == (4, 86_400_000)
    broker.delete_topic(topic)
    broker.create_topic(topic, config=COMPACTED)
    after = eventually(lambda: _facts(reader, topic), 60, "the new topic is known everywhere")
    assert after.topic_id != before.topic_id


def _facts(reader: ChangelogReader, topic: str) -> TopicFacts | None:
    try:
        return reader.facts(topic)
    except ChangelogError:
        return None


def test_a_missing_topic_is_told_with_advice(reader: ChangelogReader) -> None:
    with pytest.raises(ChangelogError, match="start its app"):
        reader.facts("nowhere")


def test_a_missing_broker_is_told_in_time() -> None:
    lonely = ChangelogReader(ReaderSettings(Kafka("127.0.0.1:1"), timeout_s=0.5))
    with pytest.raises(BrokerUnavailableError):
        lonely.facts("t")
    lonely.close()


def test_reading_behind_the_end_of_the_log_is_told(broker: Broker, topic: str, reader: ChangelogReader) -> None:
    write(broker, topic, [(b"k", b"v")])
    reader.add(topic, 0, 1_000)
    assert any(batch.moved for _ in range(20) for batch in reader.read(5))
