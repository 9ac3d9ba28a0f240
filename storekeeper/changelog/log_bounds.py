"""First and end offsets of logs, as the brokers report them.

They are requested through a consumer that reads nothing, because librdkafka's two other ways have bugs:

- `AdminClient.list_offsets` uses freed memory when a metadata update arrives at the start of the call: its first pass
  over the leaders runs on the caller's thread, and the update starts a second one in parallel, that of
  `rd_kafka_topic_partition_list_query_leaders_async` (seen up to 2.16.1). The process crashes with a segfault.
- `Consumer.get_watermark_offsets` may wait for ever while a partition has no leader:
  https://github.com/confluentinc/librdkafka/issues/4878.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.kafka.clients import CONNECT_AT_ONCE, new_consumer
from storekeeper.kafka.connection import Kafka

TopicAndPartition = tuple[str, int]

FIRST = int(OFFSET_BEGINNING)
"""Asks for the first offset of a log."""
END = int(OFFSET_END)
"""Asks for its end, exclusive.

To `read_committed`, that is the last stable offset, before the first record of an open transaction: the end of an
input. The end of a state is that of `committed_ends`.
"""

_TIMEOUT_S = 30.0
_STALE = {
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 (librdkafka's own code)
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""Errors of a client whose metadata and the broker's are not of the same time."""


def offset_client(
    kafka: Kafka,
    *,
    isolation: str = "read_committed",
    more: Mapping[str, str] | None = None,
) -> Consumer:
    """A client to ask for offsets. Threads may ask at the same time; `close` frees it."""
    return new_consumer(kafka, "offsets", {"isolation.level": isolation, **(more or {})})


@lru_cache(maxsize=8)
def kept_offset_client(kafka: Kafka, isolation: str = "read_committed") -> Consumer:
    """The client that this process keeps for its requests: a new one sometimes asks before it is connected."""
    return offset_client(kafka, isolation=isolation, more=CONNECT_AT_ONCE)


def offsets_of(
    kafka: Kafka, wanted: Mapping[TopicAndPartition, int], *, isolation: str = "read_committed"
) -> dict[TopicAndPartition, int]:
    """The `FIRST` or `END` offset of each of `wanted`, as readers of an isolation level see it.

    Raises:
        BrokerUnavailableError: the broker doesn't answer, or doesn't know a partition.
    """
    try:
        return log_offsets(kept_offset_client(kafka, isolation), wanted, _TIMEOUT_S)
    except KafkaException as error:
        topics = ", ".join(sorted({topic for topic, _ in wanted}))
        msg = f"the broker at {kafka} does not report the offsets of {topics}: {error.args[0].str()}"
        raise BrokerUnavailableError(msg) from error


def known_offsets(
    client: Consumer, wanted: Mapping[TopicAndPartition, int], timeout_s: float
) -> dict[TopicAndPartition, int]:
    """The `FIRST` or `END` offset of each of `wanted`, without those that the broker reports no offset for.

    Raises:
        KafkaException: no answer within `timeout_s`.
    """
    answers = _asked(client, wanted, timeout_s)
    return {(one.topic, one.partition): one.offset for one in answers if one.error is None and one.offset >= 0}


def offsets_at(
    client: Consumer, times: Mapping[TopicAndPartition, int], timeout_s: float
) -> dict[TopicAndPartition, int]:
    """The first offset of each log whose record is of a time, in epoch milliseconds, or later; without those of none.

    Instead of a time, `FIRST` or `END`.

    Raises:
        KafkaException: no answer within `timeout_s`, or a partition that the broker doesn't know.
    """
    answers = _asked(client, times, timeout_s)
    for one in answers:
        if one.error is not None:
            raise KafkaException(one.error)
    return {(one.topic, one.partition): one.offset for one in answers if one.offset >= 0}


def log_offsets(
    client: Consumer, wanted: Mapping[TopicAndPartition, int], timeout_s: float
) -> dict[TopicAndPartition, int]:
    """The `FIRST` or `END` offset of each of `wanted`.

    Raises:
        KafkaException: no answer within `timeout_s`, or a partition that the broker doesn't know.
    """
    found = offsets_at(client, wanted, timeout_s)
    if len(found) < len(wanted):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 (librdkafka's own codes)
    return found


def log_bounds(client: Consumer, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """The first offset of a log, and its end. Two requests, each answered within `timeout_s`.

    Raises:
        KafkaException: the broker doesn't know the partition, or doesn't answer in time.
    """
    where = (topic, partition)
    first = log_offsets(client, {where: FIRST}, timeout_s)[where]
    return first, log_offsets(client, {where: END}, timeout_s)[where]


def _asked(client: Consumer, wanted: Mapping[TopicAndPartition, int], timeout_s: float) -> list[TopicPartition]:
    # The protocol treats FIRST and END as timestamps: https://kafka.apache.org/protocol#The_Messages_ListOffsets
    asked = [TopicPartition(*where, which) for where, which in wanted.items()]
    if not asked:
        return []
    try:
        answers = client.offsets_for_times(asked, timeout=timeout_s)
    except KafkaException as error:
        if not _is_stale(error.args[0]):
            raise
    else:
        if not any(_is_stale(one.error) for one in answers):
            return answers
    # The client takes minutes to notice by itself new partitions, a topic that was deleted and recreated, or a leader
    # that has begun anew.
    for topic in {topic for topic, _ in wanted}:
        client.list_topics(topic, timeout=timeout_s)
    return client.offsets_for_times(asked, timeout=timeout_s)


def _is_stale(error: KafkaError | None) -> bool:
    return error is not None and error.code() in _STALE
