"""Changelogs in memory, read as a broker would let them be read, with troubles on request."""

from __future__ import annotations

from collections.abc import Callable

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.changelog.reader import ChangelogReader, TopicFacts
from storekeeper.changelog.restore import LogState
from storekeeper.errors import ChangelogError
from tests.changelog.messages import Record
from tests.node.replicas.recording import DAY_MS


class FakeLog(ChangelogReader):
    """The partitions of topic `t`, and a reader of them that hands out at most `page` records a time.

    Attributes:
        records: the log by partition; offsets may have gaps.
        on_idle: called when a read finds nothing.
        broker_up: whether requests are answered.
        gone: whether the topic was deleted.
    """

    def __init__(self, partitions: int = 1, page: int = 2) -> None:
        self.records: dict[int, list[Record]] = {partition: [] for partition in range(partitions)}
        self.topic_id = "id-1"
        self.broker_up = True
        self.gone = False
        self.delete_retention_ms = DAY_MS
        self.on_idle: Callable[[], None] = lambda: None
        self.moved: dict[int, str] = {}
        self.added: list[tuple[int, int]] = []
        self._page = page
        self._positions: dict[TopicAndPartition, int] = {}
        self._ended: set[TopicAndPartition] = set()

    def append(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        self.records[partition].append(Record(self.end(partition), key, value))

    def end(self, partition: int) -> int:
        return self.records[partition][-1].at + 1 if self.records[partition] else 0

    def facts(self, topic: str) -> TopicFacts:
        if not self.broker_up:
            raise BrokerUnavailableError("the broker is down")
        if self.gone:
            raise ChangelogError(f"the changelog topic {topic} doesn't exist")
        return TopicFacts(topic, self.topic_id, len(self.records), self.delete_retention_ms)

    def log_state(self, facts: TopicFacts, partition: int) -> LogState:
        start = self.records[partition][0].at if self.records[partition] else 0
        return LogState(facts.topic, facts.topic_id, partition, start, self.end(partition), facts.delete_retention_ms)

    def add(self, topic: str, partition: int, offset: int) -> None:
        self.added.append((partition, offset))
        self._positions[topic, partition] = offset
        self._ended.discard((topic, partition))

    def remove(self, topic: str, partition: int) -> None:
        self._positions.pop((topic, partition), None)

    def read(self, timeout_s: float) -> list[PartitionBatch]:
        del timeout_s
        batches = [found for where in list(self._positions) if (found := self._read(where)) is not None]
        if not batches:
            self.on_idle()
        return batches

    def end_offset(self, topic: str, partition: int) -> int | None:
        del topic
        return self.end(partition)

    def close(self) -> None:
        self._positions.clear()

    def _read(self, where: TopicAndPartition) -> PartitionBatch | None:
        topic, partition = where
        position = self._positions[where]
        if partition in self.moved:
            return PartitionBatch(topic, partition, [], position, False, self.moved.pop(partition))
        found = [record for record in self.records[partition] if record.at >= position][: self._page]
        at_end = not found or found[-1].at + 1 == self.end(partition)
        if not found and where in self._ended:
            return None
        self._positions[where] = found[-1].at + 1 if found else max(position, self.end(partition))
        (self._ended.add if at_end else self._ended.discard)(where)
        return PartitionBatch(topic, partition, found, self._positions[where], at_end)
