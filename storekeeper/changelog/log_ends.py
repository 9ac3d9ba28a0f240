"""Asks the broker where changelog partitions end: all of them in one go, without disturbing the reader.

A topic that is deleted and recreated is another topic of the same name. So each answer includes the topic's id. The ids
are requested last: if the id is that of the topic that a replica has read, the end is that topic's too, as ids are
never reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from storekeeper.changelog.log_bounds import END, TopicAndPartition, known_offsets, offset_client
from storekeeper.kafka.clients import new_admin
from storekeeper.kafka.connection import Kafka


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The broker's answer about one partition.

    Attributes:
        topic_id: the id of the topic; None if there is no such topic, or the topic has no such partition.
        end: the end of what is written, open transactions included: behind one there may be committed records, which
            readers don't see yet. None if the broker did not answer in time.
    """

    topic_id: str | None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic; its id is None if it doesn't exist."""

    topic_id: str | None
    partitions: int


_NO_TOPIC = _Topic(None, 0)


class LogEnds:
    """Finds the end offsets of logs. Belongs to one thread."""

    def __init__(self, kafka: Kafka, *, timeout_s: float = 1.0) -> None:
        self._timeout_s = timeout_s
        self._client = offset_client(kafka, isolation="read_uncommitted")
        self._admin = new_admin(kafka)
        self._topics: dict[str, _Topic] = {}

    def ends(self, partitions: Sequence[TopicAndPartition]) -> Mapping[TopicAndPartition, LogEnd]:
        """The end of each partition whose topic the broker described in time.

        Takes two round trips; at most twice the timeout if the broker is away.
        """
        # The client reports no end at all if one of the partitions doesn't exist.
        existing = [where for where in partitions if self._exists(where)]
        ends = self._ask(existing)
        topics = self._described({topic for topic, _ in partitions})
        self._topics |= topics
        return {
            where: LogEnd(topics[where[0]].topic_id if self._exists(where) else None, ends.get(where))
            for where in partitions
            if where[0] in topics
        }

    def _exists(self, where: TopicAndPartition) -> bool:
        topic, partition = where
        return topic not in self._topics or partition < self._topics[topic].partitions

    def _ask(self, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        try:
            return known_offsets(self._client, dict.fromkeys(partitions, END), self._timeout_s)
        except KafkaException:
            return {}

    def _described(self, names: Iterable[str]) -> dict[str, _Topic]:
        """The topics that the broker describes in time."""
        by_topic: dict[str, _Topic] = {}
        asked = self._admin.describe_topics(TopicCollection(sorted(names)), request_timeout=self._timeout_s)
        for name, future in asked.items():
            try:
                described = future.result(timeout=self._timeout_s + 1)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    by_topic[name] = _NO_TOPIC
            except TimeoutError:
                continue
            else:
                by_topic[name] = _Topic(str(described.topic_id), len(described.partitions))
        return by_topic
