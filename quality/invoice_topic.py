"""The topic of invoices, read again to compare a batch with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from quality.settings import QualitySettings
from spark_apps.errors import BrokerUnavailableError
from spark_apps.topics import Topics
from state.changelog.partitioner import partition_for

_REQUEST_S = 10.0
_SILENCE_S = 30.0
_PAUSE_S = 0.2
_RECORDS = 1000


class KafkaInvoiceTopic:
    """Reads the invoices from the broker. Not thread-safe; close it.

    Methods raise `BrokerUnavailableError` when the broker doesn't answer, and nothing is decided then.
    """

    def __init__(self, settings: QualitySettings) -> None:
        self._settings = settings
        self._consumer = _consumer(settings.kafka_bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        try:
            place = TopicPartition(self._settings.topic_pos, partition)
            return int(self._consumer.get_watermark_offsets(place, timeout=_REQUEST_S)[0])
        except KafkaException as error:
            raise self._silent() from error

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the records from `start` to `end`, exclusive, in order."""
        place = TopicPartition(self._settings.topic_pos, partition, start)
        # A consumer of its own: one that is assigned anew may tell its old position for a while, and end too early.
        with closing(_consumer(self._settings.kafka_bootstrap)) as consumer:
            try:
                consumer.assign([place])
                deadline = time.monotonic() + _SILENCE_S
                while consumer.position([place])[0].offset < end:
                    found = consumer.consume(_RECORDS, timeout=_PAUSE_S)
                    if found:
                        deadline = time.monotonic() + _SILENCE_S
                    elif time.monotonic() > deadline:
                        raise self._silent()
                    for message in found:
                        if message.error() is not None:
                            raise self._silent()
                        if (offset := message.offset()) is not None and offset < end:
                            yield offset, message.key(), message.value()
            except KafkaException as error:
                raise self._silent() from error

    def sink_partition(self, store: str) -> int:
        """The partition of the masked line items that a store's are written to."""
        return partition_for(store.encode(), self._sink_partitions)

    @cached_property
    def _sink_partitions(self) -> int:
        return len(Topics(self._settings.kafka_bootstrap).partitions(self._settings.topic_hadoop_sink))

    def _silent(self) -> BrokerUnavailableError:
        topic = self._settings.topic_pos
        return BrokerUnavailableError(f"topic {topic} can't be read from {self._settings.kafka_bootstrap}: is it up?")


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "quality-gate",  # required; nothing is ever committed under it
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
