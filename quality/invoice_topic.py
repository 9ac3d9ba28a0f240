"""The topic of invoices, read again to compare a batch with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from quality.settings import QualitySettings
from spark_apps.errors import BrokerUnavailableError
from spark_apps.topics import Topics
from state.changelog.partitioner import partition_for
from state.changelog.stretch import bounds_of, read_stretch
from state.errors import ChangelogError


class KafkaInvoiceTopic:
    """Reads the invoices from the broker. Not thread-safe.

    Methods raise `BrokerUnavailableError` when the broker doesn't answer, and nothing is decided then.
    """

    def __init__(self, settings: QualitySettings) -> None:
        self._settings = settings

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        with self._reading():
            return bounds_of(self._settings.kafka_bootstrap, self._settings.topic_pos, partition)[0]

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the records from `start` to `end`, exclusive, in order."""
        bootstrap, topic = self._settings.kafka_bootstrap, self._settings.topic_pos
        with self._reading():
            for message in read_stretch(bootstrap, topic, partition, start, end):
                yield message.offset() or 0, message.key(), message.value()

    def sink_partition(self, store: str) -> int:
        """The partition of the masked line items that a store's are written to."""
        return partition_for(store.encode(), self._sink_partitions)

    @cached_property
    def _sink_partitions(self) -> int:
        return len(Topics(self._settings.kafka_bootstrap).partitions(self._settings.topic_hadoop_sink))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ChangelogError as error:
            msg = f"topic {self._settings.topic_pos} can't be read: {error}"
            raise BrokerUnavailableError(msg) from error
