"""Where logs begin and end, as an admin client is told."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

_GRACE_S = 1.0


def log_bounds(admin: AdminClient, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
    """The first offset, and the end: before the first record of a transaction that is still open.

    Two questions, each answered within about `timeout_s`. The consumer's own question, `get_watermark_offsets`, may
    wait for ever while a partition has no leader: https://github.com/confluentinc/librdkafka/issues/4878.

    Raises:
        KafkaException: the broker doesn't know the partition, or doesn't answer in time.
    """
    start = _offset(admin, topic, partition, OffsetSpec.earliest(), timeout_s)
    return start, _offset(admin, topic, partition, OffsetSpec.latest(), timeout_s)


def _offset(admin: AdminClient, topic: str, partition: int, which: OffsetSpec, timeout_s: float) -> int:
    where = TopicPartition(topic, partition)
    asked = admin.list_offsets({where: which}, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=timeout_s)
    return told_offset(asked[where], timeout_s)


def told_offset(asked: Future[Any], timeout_s: float) -> int:
    """The offset that `list_offsets` of an admin client was asked for, with that timeout.

    Raises:
        KafkaException: the broker doesn't know the partition, or doesn't answer in time.
    """
    try:
        offset = int(asked.result(timeout=timeout_s + _GRACE_S).offset)
    except TimeoutError as error:
        raise _too_late() from error
    if offset < 0:  # that is how librdkafka may say that the broker didn't answer in time
        raise _too_late()
    return offset


def _too_late() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 (librdkafka's own codes)
