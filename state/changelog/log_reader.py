"""The reader interface that a follower needs, so that it can be tested without a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from state.changelog.batch import PartitionBatch
from state.changelog.restore import LogState

TopicAndPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A changelog topic as the broker describes it. `delete_retention_ms`: how long tombstones are kept."""

    topic: str
    topic_id: str
    partitions: int
    delete_retention_ms: int


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The broker's answer about one partition.

    Attributes:
        topic_id: the id of the topic; None if there is no such topic, or the topic has no such partition.
        bounds: the last stable offset and the end of what is written; None if the broker did not answer in time.
    """

    topic_id: str | None
    bounds: tuple[int, int] | None = None


class LogReader(Protocol):
    """Reads many changelog partitions, each from an offset of its own. Not thread-safe."""

    def facts(self, topic: str) -> TopicFacts:
        """Describes a topic. A recreated topic is no longer read: add its partitions again.

        Raises:
            ChangelogError: if it doesn't exist.
            BrokerUnavailableError: if no broker answers in time.
        """
        ...

    def log_state(self, facts: TopicFacts, partition: int) -> LogState:
        """Where one partition's log begins and ends now.

        Raises:
            BrokerUnavailableError: if no broker answers in time.
        """
        ...

    def add(self, topic: str, partition: int, offset: int) -> None:
        """Reads one more partition."""
        ...

    def remove(self, topic: str, partition: int) -> None:
        """Stops reading a partition. Does nothing if it isn't read."""
        ...

    def read(self, timeout_s: float) -> list[PartitionBatch]:
        """Waits up to `timeout_s` for something to read, then returns what there is.

        Returns a batch per partition that had records, whose end was reached, or that can't be read on: maybe none.
        """
        ...

    def end_offset(self, topic: str, partition: int) -> int | None:
        """The end of a partition that is being read, as of the last fetch; doesn't ask the broker. None: unknown."""
        ...

    def close(self) -> None:
        """Frees the consumer. Safe to call twice."""
        ...
