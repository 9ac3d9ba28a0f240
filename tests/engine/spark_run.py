"""Runs a topology on real Spark and a real broker, query by query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import Describe, read_topics, topology_app
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.engine.runtime.batch_query import BatchQuery, ProcessBatch
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.stream import StreamContext
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.stream import open_topology_stream
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S = 90.0


class SparkRun:
    """One app whose batches run when they are asked for.

    Attributes:
        context: what its batches may use.
    """

    def __init__(
        self,
        app: str,
        describe: Describe,
        broker: Broker,
        spark: SparkSession,
        folder: Path,
        *,
        kafka: Kafka | None = None,
        **settings: Any,
    ) -> None:
        self._describe = describe
        self._broker = broker
        kafka = kafka or broker.kafka
        self.settings = AppSettings(
            kafka_bootstrap=kafka.bootstrap,
            kafka_properties=kafka.properties,
            cluster=kafka.cluster,
            run_dir=folder,
            **settings,
        )
        spec = topology_app(app, describe, title=app)
        self.checkpoint = BatchCheckpoint(self.settings.checkpoint_dir(app))
        self.context = StreamContext(spec, spark.sparkContext, self.settings, self.checkpoint)
        self._producer = new_producer(broker.kafka, {"partitioner": "murmur2_random"})

    def make_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Makes source and sink topics, and the topic of dead letters. What an earlier run left is deleted.

        Args:
            topics: how many partitions each has.
            config: of all of them, by Kafka's names.
        """
        app = self.context.spec.name
        known = self._broker.admin().list_topics(timeout=10).topics
        for name in known:
            if name in topics or name.startswith(f"{app}-"):
                self._broker.delete_topic(name)
        for name, partitions in topics.items():
            self._broker.create_topic(name, partitions, config)
        for name in self.context.spec.dead_letter_topics:
            self._broker.create_topic(name, 1)

    def produce(self, topic: str, records: Iterable[tuple[bytes | None, bytes | None, int]], **more: Any) -> None:
        """Appends records: key, value, timestamp in epoch milliseconds."""
        for key, value, timestamp_ms in records:
            self._producer.produce(topic, value, key, timestamp=timestamp_ms, **more)
        assert not self._producer.flush(30)

    def run(self, around: Callable[[ProcessBatch], ProcessBatch] = lambda process: process) -> None:
        """Handles all that waits, in one query that is started and stopped.

        Raises:
            Exception: what ended the query.
        """
        run_query(self._started(around), self.context)

    @contextmanager
    def running(self, around: Callable[[ProcessBatch], ProcessBatch] = lambda process: process) -> Iterator[BatchQuery]:
        """Runs the app's query until the block ends, as a driver does."""
        query = self._started(around)
        try:
            yield query
        finally:
            query.stop()

    def settle(self, topic: str, count: int) -> None:
        """Runs until a topic holds `count` committed records."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while len(self.records(topic)) < count:
            assert time.monotonic() < deadline_s, f"{topic} has {len(self.records(topic))} of {count} records"
            self.run()

    def records(self, topic: str) -> list[tuple[int, bytes | None, bytes | None, int]]:
        """The committed records of a topic: partition, key, value, timestamp."""
        return [
            (message.partition() or 0, message.key(), message.value(), message.timestamp()[1])
            for message in read_topic(self._broker.kafka, topic)
        ]

    def rows(self, changelog: str) -> dict[bytes, bytes]:
        """The rows of a store, from its changelog."""
        rows: dict[bytes, bytes] = {}
        for _, key, value, _ in self.records(changelog):
            assert key is not None
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        return rows

    def topics(self) -> list[str]:
        """The topics of the app's own."""
        app = self.context.spec.name
        return [name for name in Topics(self._broker.kafka).names() if name.startswith(f"{app}-")]

    def bounds(self, topic: str) -> tuple[dict[int, int], dict[int, int]]:
        """Where the partitions of a topic begin and end."""
        found = Topics(self._broker.kafka).bounds([topic])
        return dict(found.start.offsets[topic]), dict(found.end.offsets[topic])

    def _started(self, around: Callable[[ProcessBatch], ProcessBatch]) -> BatchQuery:
        stream = open_topology_stream(self.context, self._describe)
        return replace(stream, process=around(stream.process)).query(self.context).start()


def run_query(query: BatchQuery, context: StreamContext) -> None:
    """Lets an app's query handle all that waits, and stops it.

    Raises:
        Exception: what ended the query.
    """
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        query.settle(_TIMEOUT_S)
        while not _is_caught_up(context):  # the broker may not have told the newest offsets
            assert time.monotonic() < deadline_s, "the query doesn't catch up"
            query.settle(_TIMEOUT_S)
    finally:
        query.stop()


def _is_caught_up(context: StreamContext) -> bool:
    ends = Topics(context.settings.kafka).end(read_topics(context.spec, context.settings))
    done = context.checkpoint.committed_position()
    return all(done.offset(topic, partition) == end for topic, partition, end in ends)
