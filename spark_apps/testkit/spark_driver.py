"""The same driver on real Spark and a real broker: the app's own stream, checkpoint and sink."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.late_worker import WORKER_TRIES, worker_was_late
from spark_apps.processor.records import OutputRecord
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from spark_apps.stream import OpenStream, ProcessBatch, StreamContext
from spark_apps.testkit.crash import Crash, Step
from spark_apps.testkit.driver import PARTITIONS, START_MS, Piped, encoded, store_of, stores_of
from spark_apps.testkit.store_view import StoreView
from state.changelog.partitioner import partition_for
from state.changelog.stretch import read_topic
from state.errors import ConfigurationError, InvalidArgumentError, StateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_TIMEOUT_S = 60.0
_POLL_S = 0.05
_FOR_EVER = {"retention.ms": "-1"}  # the driver's time is long past: the broker would delete its records


class PlannedCrash(Exception):  # noqa: N818 (nothing is wrong: the test wants it)
    """The crash that a test asked for."""


class SparkDriver:
    """Runs an app's stream for a test. Its topics are made at the start and deleted at the end.

    Use one at a time for each app, as its topics have their usual names. `folder` must be empty.

    Raises:
        ConfigurationError: topics of the app are there already: they may be somebody's.
    """

    def __init__(self, spec: AppSpec, settings: AppSettings, spark: SparkSession, folder: Path) -> None:
        self._spec = spec
        self._settings = spec.settings(settings.model_copy(update={"run_dir": folder, "trigger_interval_ms": 0}))
        self._spark = spark
        self._admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap, "log_level": 0})
        self._now_ms = START_MS
        self._piped: list[tuple[str, int, bytes | None, bytes | None, int]] = []
        self._crash: Crash | None = None
        self._query: StreamingQuery | None = None
        self._topics = list(dict.fromkeys(spec.topics(self._settings)))
        self._refuse_others_topics()
        self._make_topics()

    def pipe(self, topic: str, key: Piped, value: Piped, *, partition: int | None = None) -> None:
        """Appends a record to a source topic; the key decides its partition unless one is given."""
        key_bytes = encoded(key)
        if partition is None:
            partition = partition_for(key_bytes, PARTITIONS) if key_bytes is not None else 0
        self._piped.append((topic, partition, key_bytes, encoded(value), self._now_ms))

    def advance(self, by_ms: int) -> None:
        """Moves the driver's clock on.

        Raises:
            InvalidArgumentError: time would go back.
        """
        if by_ms < 0:
            raise InvalidArgumentError("time never goes back")
        self._now_ms += by_ms

    def run(self, crash: Crash | None = None) -> None:
        """Handles all that was piped; after a crash, first the batch that was cut off."""
        if self._query is None or not self._query.isActive:
            self._start()
            self._settle(None)
        if self._piped:
            self._stop() if crash is not None else None
            self._produce()
            self._crash = crash
            if self._query is None:
                self._start()
            self._settle(crash)

    def output(self, topic: str) -> list[OutputRecord]:
        """What a reader of committed records sees in a topic, by partition and offset."""
        return list(_read(self._settings.kafka_bootstrap, topic))

    def store(self, name: str) -> StoreView:
        """The rows of a store, from its changelog."""
        spec = store_of(stores_of(self._spec), name)
        return StoreView(spec, ((record.key or b"", record.value) for record in self.output(spec.changelog_topic)))

    def close(self) -> None:
        """Ends the stream and deletes its topics."""
        self._stop()
        self._delete_topics()
        shutil.rmtree(self._settings.run_dir, ignore_errors=True)

    def _start(self) -> None:
        checkpoint = SparkCheckpoint(self._settings.checkpoint_dir(self._spec.name))
        open_stream: OpenStream = importlib.import_module(self._spec.module).open_stream
        stream = open_stream(StreamContext(self._spec, self._spark, self._settings, checkpoint))
        self._query = (
            stream.frame.writeStream.queryName(f"{self._spec.name}-test")
            .outputMode(stream.output_mode)
            .foreachBatch(self._crashing(stream.process))
            .option("checkpointLocation", str(checkpoint.path))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _crashing(self, process: ProcessBatch) -> ProcessBatch:
        def processed(batch: DataFrame, batch_id: int) -> None:
            crash, self._crash = self._crash, None
            if crash == Crash(Step.PLAN):
                raise PlannedCrash
            if crash == Crash(Step.STATE_WRITE):
                batch.write.format("noop").mode("overwrite").save()
                raise PlannedCrash
            process(batch, batch_id)
            if crash == Crash(Step.SINK_WRITE):
                raise PlannedCrash

        return processed

    def _settle(self, crash: Crash | None) -> None:
        for tries in range(1, WORKER_TRIES + 1):
            assert self._query is not None  # noqa: S101 (it was just started)
            try:
                self._query.processAllAvailable()
                break
            except Exception as error:
                if crash is not None and PlannedCrash.__name__ in str(error):
                    break
                if tries == WORKER_TRIES or not worker_was_late(error):
                    raise
                self._stop()
                self._crash = crash
                self._start()
        if crash is not None:
            self._stop()

    def _stop(self) -> None:
        if self._query is not None:
            with contextlib.suppress(Exception):  # a query that failed tells its failure again
                self._query.stop()
        self._query = None

    def _produce(self) -> None:
        # Librdkafka's own partitioner is never asked: the partition is always given.
        producer = Producer({"bootstrap.servers": self._settings.kafka_bootstrap, "linger.ms": 5})
        for topic, partition, key, value, timestamp_ms in self._piped:
            producer.produce(topic, value=value, key=key, partition=partition, timestamp=timestamp_ms)
        if producer.flush(_TIMEOUT_S):
            raise StateError("the broker didn't take the records: look at its log")
        self._piped = []

    def _refuse_others_topics(self) -> None:
        there = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        others = [topic for topic in self._topics if topic in there]
        if others:
            msg = (
                f"topics of {self._spec.name} are there already ({', '.join(others)}), and a test would delete them: "
                "use a broker for tests (STOREKEEPER_KAFKA_BOOTSTRAP), or delete them yourself"
            )
            raise ConfigurationError(msg)

    def _make_topics(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        waiting = self._topics
        while waiting:
            futures = self._admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=_FOR_EVER) for topic in waiting])
            waiting = [topic for topic, future in futures.items() if not _done(future)]
            if waiting and time.monotonic() > deadline:
                msg = f"topics could not be made: {', '.join(waiting)}: look at the broker's log"
                raise StateError(msg)
            time.sleep(_POLL_S)

    def _delete_topics(self) -> None:
        there = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        doomed = [topic for topic in self._topics if topic in there]
        if doomed:
            for future in self._admin.delete_topics(doomed, operation_timeout=_TIMEOUT_S).values():
                _done(future)


def _done(future: object) -> bool:
    try:
        future.result(timeout=_TIMEOUT_S)  # type: ignore[attr-defined]
    except KafkaException:
        return False
    return True


def _read(bootstrap: str, topic: str) -> Iterable[OutputRecord]:
    for message in read_topic(bootstrap, topic):
        headers = tuple((name, value or b"") for name, value in message.headers() or ())
        yield OutputRecord(topic, message.key(), message.value(), message.partition(), headers)
