"""One task of a batch writing its records: the part of the sink that runs in Spark's Python workers.

In order: take over the slot's transactional id, which ends whatever an earlier attempt left open and shuts out one
that still runs; read the slot's marker; write records and the new marker in one transaction. If the marker is this
batch's already, everything is there and nothing is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from spark_apps.partitions import check_partitions
from spark_apps.sink.errors import BrokerRefusedError, FencedWriterError, UnrepeatableBatchError
from spark_apps.sink.markers import Marker, marker_key, read_marker
from spark_apps.sink.records import Headers, MapRecords, SinkRecord, TopicRule, dead_letter
from spark_apps.sink.task_input import check_input_complete

if TYPE_CHECKING:
    import pyarrow as pa

_POLL_EVERY = 4096
_ABORT_TIMEOUT_S = 5.0
_ROOM_BYTES = 4096
"""A value this much smaller than its topic's limit fits with any key and headers of ours."""


_CONSEQUENCES = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)  # noqa: SLF001 (librdkafka's own codes)


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What every task of a batch must know. Travels to the workers.

    `source_topics` are the topics whose partitions are the slots, or empty if Spark's partition number is the slot.
    `partitions` is, by topic, the number of partitions that a topic of changes must have. `refused_to` is the topic for
    records that their own topic would refuse.
    """

    bootstrap: str
    app: str
    transactional_id: str
    query_id: str
    batch_id: int
    markers: str | None
    source_topics: tuple[str, ...]
    partitions: Mapping[str, int]
    rules: Mapping[str, TopicRule]
    refused_to: str | None
    dead_letter_topics: frozenset[str]
    producer: Mapping[str, str | int]
    timeout_s: float


class TaskOutcome(NamedTuple):
    """What became of one task. `skipped`: its records had been committed by an earlier attempt."""

    slot: int
    rows: int
    records: int
    dead_letters: int
    skipped: bool
    open_ms: int
    write_ms: int
    commit_ms: int


def write_task(
    batches: Iterator[pa.RecordBatch], partition_id: int, records_of: MapRecords, plan: SinkPlan
) -> TaskOutcome | None:
    """Writes the records of one task's rows; None if it has no rows.

    Raises:
        UnrepeatableBatchError: the batch was written before, from other rows or by a later state of the app.
        FencedWriterError: a newer attempt took over.
        BrokerRefusedError: the broker refused a record for good.
        PartitionsChangedError: a topic has another number of partitions than the plan says.
        TruncatedInputError: the JVM went away.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    rows = TaskRows(chain([first], batches))
    slot = source_slot(first, plan.source_topics) if plan.source_topics else partition_id
    opened_at = time.monotonic()
    writer = TaskWriter(plan, slot)
    open_ms = _ms_since(opened_at)
    written_at = time.monotonic()
    try:
        writer.write(records_of(iter(rows)))
        check_input_complete()
        write_ms = _ms_since(written_at)
        committed_at = time.monotonic()
        skipped = writer.commit(rows.count)
    except BaseException:
        writer.abandon()
        raise
    return TaskOutcome(
        slot, rows.count, writer.records, writer.dead_letters, skipped, open_ms, write_ms, _ms_since(committed_at)
    )


@dataclass(slots=True)
class TaskRows:
    """A task's rows on their way through, counted."""

    batches: Iterator[pa.RecordBatch]
    count: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.count += batch.num_rows
            yield batch


def source_slot(batch: pa.RecordBatch, topics: tuple[str, ...]) -> int:
    """The slot of the source partition that a task reads: the same one in each attempt.

    Spark's own partition number would not do: it lists the partitions of a source in no fixed order.
    """
    partition: int = batch.column("partition")[0].as_py()
    topic = 0 if len(topics) == 1 else topics.index(batch.column("topic")[0].as_py())
    return partition * len(topics) + topic


class TaskWriter:
    """Writes the records of one task. In a transaction, unless the plan has no markers."""

    def __init__(self, plan: SinkPlan, slot: int) -> None:
        self._plan = plan
        self._slot = slot
        self._key = marker_key(plan.query_id, slot)
        self._failed: list[KafkaError] = []
        self._value_bytes = 0
        self.records = 0
        self.dead_letters = 0
        settings: dict[str, object] = {
            **plan.producer,
            "bootstrap.servers": plan.bootstrap,
            "on_delivery": lambda error, _: self._failed.append(error) if error is not None else None,
            "delivery.report.only.error": True,
        }
        if plan.markers is not None:
            settings["transactional.id"] = f"{plan.transactional_id}-{slot}"
        self._producer = Producer(settings)
        self._plain_bytes = min((rule.max_record_bytes for rule in plan.rules.values()), default=1 << 40) - _ROOM_BYTES
        self._committed = None if plan.markers is None else self._taken_over(plan.markers)
        if plan.markers is None:
            self._check_partitions()  # now, for nothing can be undone later
        self._produce = _written_already if self._replayed else self._producer.produce

    @property
    def _replayed(self) -> bool:
        return self._committed is not None and self._committed.batch_id == self._plan.batch_id

    def write(self, records: Iterable[SinkRecord]) -> None:
        """Hands records over."""
        produce, dead_letter_topics = self._produce, self._plan.dead_letter_topics
        # A loop over millions: what nearly every record passes is decided by comparisons alone.
        plain_bytes, count, value_bytes = self._plain_bytes, 0, 0
        for record in records:
            topic, key, value, headers, partition = record
            if value is None or key is None or len(value) > plain_bytes:
                topic, key, value, headers, partition = self._checked(record)
            if topic in dead_letter_topics:
                self.dead_letters += 1
            count += 1
            value_bytes += len(value or b"")
            try:
                produce(topic, value, key, partition, headers=headers)
            except BufferError:
                self._produce_later(topic, value, key, partition, headers)
            except KafkaException as error:  # a producer that is fenced or broken takes nothing any more
                raise self._error(self._cause(error)) from error
            if not count % _POLL_EVERY:
                self._poll(0)
        self.records += count
        self._value_bytes += value_bytes

    def commit(self, rows: int) -> bool:
        """Makes everything visible at once; True if it had been before, so that nothing was written."""
        marker = Marker(self._plan.batch_id, rows, self.records, self._value_bytes)
        if self._replayed:
            if marker != self._committed:
                raise UnrepeatableBatchError(self._described("its rows are not those that it had when it was written"))
            return True
        if self._plan.markers is None:
            if self._producer.flush(self._plan.timeout_s):
                raise BrokerRefusedError(self._described("the broker did not take all records in time"))
            self._check()
            return False
        self._check_partitions()
        try:
            self._produce(self._plan.markers, marker.encode(), self._key, self._slot, headers=None)
        except KafkaException as error:
            raise self._error(self._cause(error)) from error
        self._until_done(self._producer.commit_transaction)
        return False

    def _check_partitions(self) -> None:
        """Refuses to go on if the producer may put keys into other partitions than their earlier rows are in.

        A transaction is checked after its last record. Partitions are only ever added, so whatever number the producer
        knew while it wrote is known by then.
        """
        for topic in self._plan.partitions:
            try:
                found = self._producer.list_topics(topic, self._plan.timeout_s).topics[topic].partitions
            except KafkaException as error:
                raise self._error(self._cause(error)) from error
            check_partitions(self._plan.app, self._plan.partitions, {topic: len(found)})

    def abandon(self) -> None:
        """Undoes what was written, as far as that can be done; the slot's next writer does the rest."""
        if self._plan.markers is not None and not self._replayed:
            with contextlib.suppress(KafkaException):
                self._producer.purge()
                self._producer.abort_transaction(_ABORT_TIMEOUT_S)

    def _taken_over(self, markers: str) -> Marker | None:
        self._until_done(self._producer.init_transactions)
        committed = read_marker(self._plan.bootstrap, markers, self._slot, self._key)
        if committed is not None and committed.batch_id > self._plan.batch_id:
            raise UnrepeatableBatchError(
                self._described(f"batch {committed.batch_id} is written already: is the checkpoint an old copy?")
            )
        if committed is None or committed.batch_id < self._plan.batch_id:
            self._producer.begin_transaction()
        return committed

    def _checked(self, record: SinkRecord) -> SinkRecord:
        """The record, or a dead letter in its place if its topic would not take it."""
        plan = self._plan
        rule = plan.rules.get(record[0])
        reason = None if rule is None else rule.refusal(record)
        if reason is None:
            return record
        if plan.refused_to is None:
            raise BrokerRefusedError(self._described(f"{reason} (topic {record[0]}), and the app has no dead letters"))
        return dead_letter(record, reason, app=plan.app, topic=plan.refused_to, rule=plan.rules.get(plan.refused_to))

    def _produce_later(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, headers: Headers
    ) -> None:
        while True:
            self._poll(0.05)
            with contextlib.suppress(BufferError):
                self._produce(topic, value, key, partition, headers=headers)
                return

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        self._check()

    def _check(self) -> None:
        if self._failed:
            raise self._error(self._cause(KafkaException(self._failed[0])))

    def _until_done(self, step: object) -> None:
        """Repeats a step of a transaction for as long as its failure is one that passes."""
        deadline = time.monotonic() + self._plan.timeout_s
        while True:
            try:
                step(self._plan.timeout_s)  # type: ignore[operator]
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                if not reason.retriable() or time.monotonic() > deadline:
                    raise self._error(self._cause(error)) from error
            else:
                return

    def _cause(self, error: KafkaException) -> KafkaError:
        """What an error comes of: a refused record, and not that others were thrown away for it."""
        refused = (failed for failed in self._failed if failed.code() not in _CONSEQUENCES)
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError._FATAL:  # noqa: SLF001
            reason = self._end_of_the_producer(reason)
        return next(refused, reason)

    def _end_of_the_producer(self, told: KafkaError) -> KafkaError:
        """Why it takes nothing any more: who writes is told only that it is so, any step of a transaction why."""
        try:
            self._producer.abort_transaction(_ABORT_TIMEOUT_S)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason
        return told

    def _error(self, reason: KafkaError) -> BrokerRefusedError | FencedWriterError:
        if reason.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):  # noqa: SLF001
            return FencedWriterError(self._described("a newer attempt has taken over"))
        return BrokerRefusedError(self._described(f"Kafka says {reason.name()}: {reason.str()}"))

    def _described(self, what: str) -> str:
        return f"{self._plan.app} batch {self._plan.batch_id}, slot {self._slot}: {what}"


def _written_already(*_: object, **__: object) -> None:
    """Takes the place of writing when a batch is run again that an earlier attempt has committed."""


def _ms_since(began_s: float) -> int:
    return round((time.monotonic() - began_s) * 1000)
