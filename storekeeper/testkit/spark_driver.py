"""The driver of an app on real Spark and a real broker: the engine that runs it, its checkpoint and transactions."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Message
from confluent_kafka.admin import NewTopic

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import changelog_topics
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.engine.dead_letters import own_headers
from storekeeper.engine.importable import check_importable
from storekeeper.engine.own_topics import own_topics_of
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.stream import Stream, StreamContext
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.stream import Batches, open_topology_stream
from storekeeper.errors import ConfigurationError, InvalidArgumentError, StateError
from storekeeper.kafka.clients import new_admin, new_producer
from storekeeper.kafka.connection import KEPT_TIMES, TIMES
from storekeeper.testkit.plain_driver import PARTITIONS, partitions_of, topology_of
from storekeeper.topology.driver import CrashStep, TopologyTestDriver
from storekeeper.topology.records import DeadLetter, Record, StoreChange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S = 60.0
_POLL_S = 0.05
_CONFIG = {
    "retention.ms": "-1",  # the driver's time is long past: the broker would delete its records
    TIMES: KEPT_TIMES,
}


class PlannedCrash(Exception):  # noqa: N818 (nothing is wrong: the test wants it)
    """The crash that a test asked for."""


class SparkDriver(TopologyTestDriver):
    """Runs an app's topology on Spark for a test. Its topics are made at the start and deleted by `close`.

    Piped records become a Spark batch, which `run` waits for. `rows`, `store` and `changelog` show what the
    changelogs hold; those of a global table show what was piped. `dropped` counts nothing here.

    Use one at a time for each app, as its topics have their usual names. `folder` must be empty.

    Raises:
        ConfigurationError: topics of the app exist already: somebody may use them; or workers can't import the app.
    """

    def __init__(
        self, spec: AppSpec, settings: AppSettings, spark: SparkSession, folder: Path, *, partitions: int = PARTITIONS
    ) -> None:
        settings = spec.settings(settings.model_copy(update={"run_dir": folder, "durable_uri": None}))
        topology = topology_of(spec, settings)
        assert spec.describe is not None  # noqa: S101 (for the type checker)
        check_importable(spec.name, spec.describe, topology)
        super().__init__(topology, partitions_of(topology, partitions))
        self._describe = spec.describe
        self._settings = settings
        checkpoint = BatchCheckpoint(settings.checkpoint_dir(spec.name))
        self._context = StreamContext(spec, spark.sparkContext, settings, checkpoint)
        self._admin = new_admin(settings.kafka)
        self._internal = topology.repartition_topics
        self._changelog_topics = changelog_topics(spec.name, topology)
        self._piped: list[Record] = []
        self._seen: dict[tuple[str, int], int] = {}
        named = dict.fromkeys((*spec.sources(settings), *spec.sinks(settings), *spec.dead_letter_topics))
        self._topics = [*named, *(own.name for own in own_topics_of(spec.name, self._layout, settings.generation))]
        self._refuse_others_topics()
        self._make_topics({topic: self.plan.partitions.get(topic, partitions) for topic in named})

    def run(self) -> None:
        """Processes all waiting records, and those that follow from them."""
        self._produce()
        deadline_s = time.monotonic() + _TIMEOUT_S
        self._query()
        while not self._is_done():
            if time.monotonic() > deadline_s:
                raise StateError("the app doesn't come to the end of its topics: look at Spark's log")
            self._query()
        self._read_new_records()

    def advance(self, by_ms: int) -> None:
        """Always raises: on Spark the wall clock is that of the machine."""
        raise InvalidArgumentError("the wall clock can't be moved on Spark: test such timers with plain_driver")

    def crash_at(self, step: CrashStep, *, batches_before: int = 0) -> None:
        """Crashes a Spark batch; the next start runs it again.

        Args:
            step: before any task has committed; after only those of the first stage have; or after all have.
            batches_before: how many batches are handled before it.
        """
        super().crash_at(step, batches_before=batches_before)

    def close(self) -> None:
        """Deletes the app's topics and files, and waits until the topics are gone.

        Raises:
            StateError: the broker hasn't deleted them within a minute.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        while there := self._topics_there():
            if time.monotonic() > deadline:
                raise StateError(f"these topics could not be deleted: {', '.join(there)}: look at the broker's log")
            for future in self._admin.delete_topics(there, operation_timeout=_TIMEOUT_S).values():
                _done(future)
            time.sleep(_POLL_S)
        shutil.rmtree(self._settings.run_dir, ignore_errors=True)

    def _append(self, record: Record) -> None:
        super()._append(record)
        self._piped.append(record)

    def _produce(self) -> None:
        # Librdkafka's own partitioner is never used: the partition is always given.
        producer = new_producer(self._settings.kafka, {"linger.ms": 5})
        for topic, partition, _, timestamp_ms, key, value, headers in self._piped:
            own = list(headers) or None
            # Librdkafka takes 0 for the time of now.
            producer.produce(topic, value, key, partition, timestamp=timestamp_ms or 1, headers=own)
        if producer.flush(_TIMEOUT_S):
            raise StateError("the broker didn't take the records: look at its log")
        self._piped = []

    def _query(self) -> None:
        """Processes the records in the topics. Starts another query after each crash."""
        while True:
            stream = open_topology_stream(self._context, self._describe)
            query = replace(stream, process=self._crashing(stream)).query(self._context).start()
            try:
                query.settle(_TIMEOUT_S)
            except PlannedCrash:
                continue
            else:
                return
            finally:
                query.stop()

    def _crashing(self, stream: Stream) -> ProcessBatch:
        batches = stream.process
        assert isinstance(batches, Batches)  # noqa: S101 (for the type checker)

        def processed(batch_id: int) -> None:
            crash = self._next_crash()
            if crash is CrashStep.OUTPUTS_WRITTEN:
                batches.tasks(batch_id, 0).collect()
            elif crash is not CrashStep.BEFORE_COMMIT:
                batches(batch_id)
            if crash is not None:
                raise PlannedCrash

        return processed

    def _is_done(self) -> bool:
        ends = Topics(self._settings.kafka).end(self._layout.topics)
        return self._context.checkpoint.committed_position().reaches(ends)

    def _read_new_records(self) -> None:
        """Reads the new committed records of the app's topics into this driver."""
        for topic in self._sinks.keys() - self._internal:
            for message in self._unseen(topic):
                self._show(topic, message.key(), message.value(), message.timestamp()[1], message.headers() or [])
        for topic in self._context.spec.dead_letter_topics:
            self.dead_letters += map(_letter, self._unseen(topic))
        for store, topic in self._changelog_topics.items():
            for message in self._unseen(topic):
                change = StoreChange(store, message.key() or b"", message.value(), message.timestamp()[1])
                self._changelogs.setdefault((store, message.partition() or 0), []).append(change)
        ends = {log: len(records) for log, records in self._logs.items()}
        for slot in self._slots:
            if slot.sub_topology.is_global:
                self._handle(slot, ends)
            else:
                slot.task = None
                for spec in slot.sub_topology.stores:
                    self._backends.pop((spec.name, slot.partition), None)

    def _unseen(self, topic: str) -> Iterator[Message]:
        for message in read_topic(self._settings.kafka, topic):
            where, offset = (topic, message.partition() or 0), message.offset() or 0
            if offset >= self._seen.get(where, 0):
                self._seen[where] = offset + 1
                yield message

    def _refuse_others_topics(self) -> None:
        if others := self._topics_there():
            raise ConfigurationError(
                f"topics of {self._context.spec.name} are there already ({', '.join(others)}), and a test would delete "
                "them: use a broker for tests (`kafka_bootstrap`), or delete them yourself"
            )

    def _topics_there(self) -> list[str]:
        topics = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return [topic for topic in self._topics if topic in topics]

    def _make_topics(self, counts: dict[str, int]) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        waiting = list(counts)
        while waiting:
            topics = [NewTopic(topic, counts[topic], 1, config=_CONFIG) for topic in waiting]
            waiting = [topic for topic, future in self._admin.create_topics(topics).items() if not _done(future)]
            if waiting and time.monotonic() > deadline:
                raise StateError(f"these topics could not be made: {', '.join(waiting)}: look at the broker's log")
            time.sleep(_POLL_S)


def _done(future: object) -> bool:
    try:
        future.result(timeout=_TIMEOUT_S)  # type: ignore[attr-defined]
    except KafkaException:
        return False
    return True


def _letter(message: Message) -> DeadLetter:
    # The others are the record's own, and may be no text.
    found = message.headers() or []
    headers = {name: (value or b"").decode() for name, value in found if name.startswith("dlq.")}
    partition, offset, timestamp_ms = (
        int(headers.get(f"dlq.{name}", -1)) for name in ("partition", "offset", "timestamp")
    )
    place = headers.get("dlq.topic", ""), partition, offset, timestamp_ms
    record = Record(*place, message.key(), message.value(), own_headers(found))
    return DeadLetter(record, headers["dlq.error.message"], headers["dlq.error.class"],
                      headers.get("dlq.operator", ""), headers.get("dlq.repartition", ""))  # fmt: skip
