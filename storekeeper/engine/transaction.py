"""One task of a batch writing its records: outputs, changes and marker in one Kafka transaction.

Steps: initialise the task's transactional id, which aborts an earlier attempt's open transaction and fences an attempt
that still runs; read the task's marker; write records and the new marker in one transaction. If the marker is already
this batch's, the batch is committed and nothing is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException

from storekeeper.apps.errors import BrokerRefusedError, FencedWriterError, RefusedChangeError, UnrepeatableBatchError
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.headers import CHANGES, SourceRanges
from storekeeper.engine.dead_letters import Letters
from storekeeper.engine.markers import Marker, Passed, SourceSpans, read_marker
from storekeeper.engine.runtime.topics import check_partitions
from storekeeper.engine.topic_rules import BY_KEY, FOREVER_MS, REFUSED, SinkRecord, TopicRule, dead_letter
from storekeeper.kafka.clients import CONNECT_AT_ONCE, new_producer
from storekeeper.kafka.connection import Kafka
from storekeeper.stores.record_context import Header
from storekeeper.topology.records import Output, StoreChange
from storekeeper.trace_context import TRACEPARENT

MAX_REQUEST_BYTES = 17 << 20
"""One MiB more than the largest batch that topics take, so that the broker decides."""
_POLL_EVERY = 4096
_ABORT_TIMEOUT_S = 5.0
_EARLIEST_MS = 1
"""Replaces timestamp 0, which the client would take for the current time."""
_NOTHING: Passed = (0, "")
_ADVICE = (
    "other tasks of the batch have counted the first ones. Functions above a repartition must give the same records "
    "again: none may use a clock, a random number or a look-up, and their code may not change while a batch is open. "
    "Or the log cleaner has removed records of a compacted input; its min.compaction.lag.ms keeps new ones. "
    "Go back to the code that began the batch, or start a new generation of the app"
)
_ROOM_BYTES = 4096
"""A value this much smaller than its topic's limit fits with any of our keys and headers."""


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """The settings that every task of an app writes with.

    Attributes:
        kafka: the Kafka.
        app: the app's name.
        partitions: by topic, the number of partitions that a topic of changes must have.
        rules: by topic, which records it accepts.
        dead_letters: the topic for records that can't be processed, or that their own topic would refuse; None if they
            are only counted.
        producer: the producer's settings, by librdkafka name.
        timeout_s: how long a step of a transaction may take.
    """

    kafka: Kafka
    app: str
    partitions: Mapping[str, int]
    rules: Mapping[str, TopicRule]
    dead_letters: str | None
    producer: Mapping[str, str | int]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Slot:
    """A task's transactional id and the place of its marker. `name` is its transactional id; its marker has a topic and
    a key, and `partition` is its own there and in its stores' changelogs.
    """

    name: str
    markers: str
    partition: int
    key: bytes


def producer_options(settings: AppSettings) -> dict[str, str | int]:
    """Producer settings for many small records, by librdkafka name."""
    return {
        "partitioner": "murmur2_random",
        "enable.idempotence": "true",
        "compression.type": "lz4",
        "linger.ms": 50,
        # Below the default limit of topics: the broker refuses a batch that is too large as a whole.
        "batch.size": 512 * 1024,
        "message.max.bytes": MAX_REQUEST_BYTES,
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 128 * 1024,
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "delivery.timeout.ms": settings.transaction_timeout_ms,
        **CONNECT_AT_ONCE,
    }


class Transaction:
    """Writes the records of one task in one batch. Not thread-safe. `source` has the offset ranges of the task's input.

    Attributes:
        committed: the marker of the last batch that the task committed; None before its first.
        refused: the records that became dead letters because their topics would have refused them.

    Raises:
        FencedWriterError: a newer attempt took over, or the broker gave the transaction up because it took too long.
        BrokerRefusedError: the broker refused a record, or a step of the transaction, for good.
        UnrepeatableBatchError: a later batch is committed already, or this one with other input.
        PartitionsChangedError: a topic has another number of partitions than the plan says.
    """

    def __init__(self, plan: WriterPlan, slot: Slot, batch_id: int, source: SourceRanges) -> None:
        self._plan = plan
        self._slot = slot
        self._batch_id = batch_id
        self._source = source
        self._began_s = time.monotonic()
        self._began_ms = int(time.time() * 1000)
        self._producer = new_producer(plan.kafka, {**plan.producer, "transactional.id": slot.name})
        self.refused: list[Letters] = []
        self._plain_bytes = min((rule.max_record_bytes for rule in plan.rules.values()), default=1 << 40) - _ROOM_BYTES
        self._until_done(self._producer.init_transactions)
        self.committed = read_marker(plan.kafka, slot.markers, slot.partition, slot.key)
        self._changes = {} if self.committed is None else self.committed.changes
        self._written: dict[str, int] = {}
        if self.committed is not None:
            self._check_committed(self.committed)
        if not self.is_replay:
            self._producer.begin_transaction()

    @property
    def is_replay(self) -> bool:
        """Whether this batch is committed already: then nothing may be written."""
        return self.committed is not None and self.committed.batch_id == self._batch_id

    def check_replay(self, forwarded: Mapping[str, Passed]) -> None:
        """Checks that a replay passes the same records on to shuffles as the attempt that committed.

        A replay writes nothing, so its input may have changed: the log cleaner removes records from a compacted topic.
        But tasks behind a shuffle, some of which may have committed, need the same records from every attempt.

        Raises:
            UnrepeatableBatchError: the records differ.
        """
        assert self.committed is not None  # noqa: S101 (for the type checker)
        before = self.committed.forwarded
        for topic in sorted(before.keys() | forwarded.keys()):
            first, again = before.get(topic, _NOTHING), forwarded.get(topic, _NOTHING)
            if first != again:
                what = f"{again[0]} now" if first[0] != again[0] else "other ones now"
                difference = f"its first run passed {first[0]} records on to shuffle {topic}, and {what}"
                raise UnrepeatableBatchError(self._described(f"{difference}: {_ADVICE}"))

    def write(self, topic: str, outputs: Iterable[Output]) -> None:
        """Writes outputs to a topic. Their keys determine the partition."""
        self._produce_all(topic, outputs, BY_KEY)

    def change(self, topic: str, headers: Sequence[Header], changes: Sequence[StoreChange]) -> int:
        """Writes changes of a store to its changelog, each with its trace; returns how many there were."""
        total = self._changes.get(topic, 0) + len(changes)
        self._written[topic] = total
        last = [*headers, (CHANGES, b"%d" % total)]
        records = (
            (key, value, timestamp_ms, [*own, (TRACEPARENT, trace)] if trace else own)
            for own, part in ((headers, changes[:-1]), (last, changes[-1:]))
            for _, key, value, timestamp_ms, trace in part
        )
        return self._produce_all(topic, records, self._slot.partition)

    def check_change(self, topic: str, change: StoreChange) -> None:
        """Refuses a change of a store that its changelog would refuse.

        Raises:
            RefusedChangeError: it is too large.
        """
        if change.value is not None and len(change.value) > self._plain_bytes:
            self._checked((topic, change.key, change.value, (), self._slot.partition), too_late=False)

    def commit(
        self, progress: bytes, forwarded: Mapping[str, Passed] = MappingProxyType({}),
        left_out: SourceSpans = MappingProxyType({}), logs: Mapping[str, int] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        """Writes the marker and commits the transaction, which makes all records visible at once."""
        self._check_partitions()
        changes = {**self._changes, **self._written}
        marker = Marker(self._batch_id, self._source, dict(forwarded), progress, left_out, logs, changes)
        slot = self._slot
        try:
            self._producer.produce(slot.markers, marker.encode(), slot.key, slot.partition)
        except KafkaException as error:
            raise self._error(self._cause(error)) from error
        self._until_done(self._producer.commit_transaction)

    def begin_again(self) -> None:
        """Aborts what was written, and begins the transaction anew."""
        self.refused.clear()
        try:
            # No `purge()` before: it would forget what is on its way, and the broker would miss its sequence numbers.
            self._producer.abort_transaction(self._plan.timeout_s)
            self._producer.begin_transaction()
            self._written.clear()
        except KafkaException as error:
            raise self._error(self._cause(error)) from error

    def abandon(self) -> None:
        """Aborts the transaction. If that fails, the task's next writer aborts it."""
        if not self.is_replay:
            with contextlib.suppress(KafkaException):
                self._producer.purge()
                self._producer.abort_transaction(_ABORT_TIMEOUT_S)

    def _check_committed(self, last: Marker) -> None:
        """Fails unless the batch is the last committed one with the same input, or begins where that one ended."""
        if last.batch_id > self._batch_id:
            reason = f"batch {last.batch_id} is written already"
        elif last.batch_id == self._batch_id and last.source != self._source:
            reason = "it is written already, with other input"
        elif last.batch_id < self._batch_id and (again := _read_again(last.source, self._source)):
            reason = f"batch {last.batch_id} is written already and has read {again}"
        else:
            return
        raise UnrepeatableBatchError(self._described(f"{reason}: is the checkpoint an old copy?"))

    def _produce_all(self, topic: str, records: Iterable[Output], partition: int) -> int:
        # Runs for millions of records: for nearly all of them, comparisons alone decide.
        produce, plain_bytes, count = self._producer.produce, self._plain_bytes, 0
        latest_ms, letters = self.latest_ms(topic), self._plan.dead_letters
        try:
            for count, (key, value, timestamp_ms, headers) in enumerate(records, 1):
                to = topic
                if value is None or key is None or len(value) > plain_bytes or timestamp_ms > latest_ms:
                    record = (topic, key, value, headers, partition)
                    to, key, value, found, _ = self._checked(record, too_late=timestamp_ms > latest_ms)  # noqa: PLW2901
                    headers = found or ()  # noqa: PLW2901
                    if to == letters:
                        timestamp_ms = min(timestamp_ms, self._began_ms)  # noqa: PLW2901
                timestamp_ms = timestamp_ms or _EARLIEST_MS  # noqa: PLW2901
                try:
                    # By position: names cost a quarter of the call. So does an empty list of headers.
                    produce(to, value, key, partition, None, None, timestamp_ms, headers or None)
                except BufferError:
                    self._produce_later(to, value, key, partition, None, None, timestamp_ms, headers or None)
                if not count % _POLL_EVERY:
                    self._producer.poll(0)
        except KafkaException as error:  # a fenced or failed producer accepts no more records
            raise self._error(self._cause(error)) from error
        return count

    def _produce_later(self, *record: object) -> None:
        while True:
            self._producer.poll(0.05)
            with contextlib.suppress(BufferError):
                self._producer.produce(*record)
                return

    def latest_ms(self, topic: str) -> int:
        """The latest time that a topic takes. A minute less: the broker's clock may be behind."""
        rule = self._plan.rules.get(topic)
        return FOREVER_MS if rule is None else self._began_ms + max(0, rule.max_ahead_ms - 60_000)

    def _checked(
        self, record: tuple[str, bytes | None, bytes | None, Sequence[Header], int], *, too_late: bool
    ) -> SinkRecord:
        """The record, or a dead letter instead if its topic would refuse it."""
        plan, (topic, key, value, headers, partition) = self._plan, record
        rule = plan.rules.get(topic)
        plain: SinkRecord = topic, key, value, list(headers) or None, partition
        reason = None if rule is None else rule.refusal(plain)
        if rule is not None and too_late and topic != plan.dead_letters:
            reason = f"its time is further ahead than the {rule.max_ahead_ms} ms that its topic takes"
        if reason is None:
            return plain
        if partition != BY_KEY:
            raise RefusedChangeError(f"{reason} (topic {topic})")
        if plan.dead_letters is None:
            raise BrokerRefusedError(self._described(f"{reason} (topic {topic})"))
        self.refused.append(Letters(topic, REFUSED, reason))
        return dead_letter(plain, reason, app=plan.app, topic=plan.dead_letters, rule=plan.rules.get(plan.dead_letters))

    def _check_partitions(self) -> None:
        """Fails if a topic's number of partitions has changed: a key's new rows may be in another partition.

        Called after the last record of a transaction. Partitions are only ever added, so this count includes all
        that the producer saw while it wrote.
        """
        for topic in self._plan.partitions:
            try:
                metadata = self._producer.list_topics(topic, self._plan.timeout_s).topics[topic]
            except KafkaException as error:
                raise self._error(self._cause(error)) from error
            if metadata.error is not None:  # it was deleted, or is forbidden now
                reason = f"Kafka says {metadata.error.name()}: {metadata.error.str()} (topic {topic})"
                raise BrokerRefusedError(self._described(reason))
            check_partitions(self._plan.app, self._plan.partitions, {topic: len(metadata.partitions)})

    def _until_done(self, step: object) -> None:
        """Retries a transaction call after retriable errors, until `timeout_s` has passed."""
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
        """The reason behind an error. `produce` reports only that the producer has failed; a commit reports why."""
        reason: KafkaError = error.args[0]
        if reason.code() in (KafkaError._FATAL, KafkaError._STATE):  # noqa: SLF001 (librdkafka's own codes)
            try:
                # The transaction has failed, so this can't commit it.
                self._producer.commit_transaction(_ABORT_TIMEOUT_S)
            except KafkaException as refusal:
                reason = refusal.args[0]
        return reason

    def _error(self, reason: KafkaError) -> BrokerRefusedError | FencedWriterError:
        if reason.code() not in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):  # noqa: SLF001
            return BrokerRefusedError(self._described(f"Kafka says {reason.name()}: {reason.str()}"))
        took_s = time.monotonic() - self._began_s
        if took_s < self._plan.timeout_s:
            return FencedWriterError(self._described("a newer attempt has taken over"))
        advice = "allow more by `transaction_timeout_ms`, or take smaller batches"
        return FencedWriterError(self._described(f"it took {took_s:.0f} s: {advice}"))

    def _described(self, what: str) -> str:
        return f"{self._plan.app} batch {self._batch_id}, {self._slot.name}: {what}"


def _read_again(before: SourceRanges, now: SourceRanges) -> str | None:
    """Offsets that a committed batch has read and a later one would read again; None if there are none."""
    for topic, ranges in now.items():
        for partition, (start, _) in ranges.items():
            _, end = before.get(topic, {}).get(partition, (0, 0))
            if start < end:
                return f"{topic}[{partition}] to {end}, and this one begins at {start}"
    return None
