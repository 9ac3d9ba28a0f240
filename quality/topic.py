"""A topic that a table is made from, read again to compare a batch with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from quality.settings import QualitySettings
from state.changelog.bounded_reader import bounds_of, read_range
from state.changelog.errors import BrokerUnavailableError
from state.errors import ChangelogError


class Topic(Protocol):
    """Where records are read again."""

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        ...

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of the records from `start` to `end`, exclusive, in order."""
        ...


class KafkaTopic:
    """Reads a topic from the broker. Not thread-safe.

    Methods raise `BrokerUnavailableError` when the broker doesn't answer, and nothing is decided then.
    """

    def __init__(self, settings: QualitySettings, topic: str) -> None:
        self._kafka = settings.kafka
        self._topic = topic

    def first_offset(self, partition: int) -> int:
        """The oldest offset that the topic still has."""
        with self._reading():
            return bounds_of(self._kafka, self._topic, partition)[0]

    def read(self, partition: int, start: int, end: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Key and value of the records from `start` to `end`, exclusive, in order."""
        with self._reading():
            for message in read_range(self._kafka, self._topic, partition, start, end):
                yield message.key(), message.value()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except ChangelogError as error:
            msg = f"topic {self._topic} can't be read: {error}"
            raise BrokerUnavailableError(msg) from error
