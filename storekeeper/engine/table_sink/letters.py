"""The dead letters of a table sink: each task writes those of its source partition in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from storekeeper.apps.topology_app import markers_topics
from storekeeper.changelog.headers import SourceRanges
from storekeeper.engine.dead_letters import by_kind, dead_letter, kinds_of
from storekeeper.engine.errors import task_errors
from storekeeper.engine.markers import MARKER_TOPIC_CONFIG
from storekeeper.engine.runtime.sink_metrics import Written, encode_outcome
from storekeeper.engine.runtime.stream import StreamContext
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.task_input import check_input_complete
from storekeeper.engine.transaction import Slot, Transaction, WriterPlan, producer_options
from storekeeper.names import dead_letter_topic
from storekeeper.topology.records import DeadLetter, Record

LETTER_COLUMNS = ("_partition", "_offset", "_timestamp_ms", "_key", "_value", "_error", "_error_class")
"""The columns that a `LetterWriter` reads. `_error` is null in rows that are not dead letters."""
WRITTEN_DDL = "outcome binary"
"""The result of each task, `Written` as `encode_outcome` has it."""
_WRITTEN = pa.schema([("outcome", pa.binary())])


@dataclass(frozen=True)
class _Letters:
    """The dead letters of one batch. Travels to the workers."""

    plan: WriterPlan
    topic: str
    letters_topic: str
    slots: str
    markers: str
    query_id: str
    batch_id: int
    source: SourceRanges

    def write(self, partition: int, letters: list[DeadLetter]) -> bool:
        """Writes those of one source partition, in one transaction; returns whether they were written before."""
        slot = Slot(f"{self.slots}-{partition}", self.markers, partition, self.query_id.encode())
        transaction = Transaction(self.plan, slot, self.batch_id, self.source)
        if transaction.is_replay:
            return True
        try:
            transaction.write(self.letters_topic, (dead_letter(letter, app=self.plan.app) for letter in letters))
            transaction.commit(b"{}")
        except BaseException:
            transaction.abandon()
            raise
        return False


class LetterWriter:
    """Writes the dead letters of batches. One for each query."""

    def __init__(self, context: StreamContext, topic: str) -> None:
        settings = context.settings
        self._context = context
        self._topics = Topics(settings.kafka)
        self._topic = topic
        self._letters_topic = dead_letter_topic(context.spec.name)
        (self._markers,) = markers_topics(context.spec, settings, context.slots)
        self._partitions = 0
        self._plan = WriterPlan(
            kafka=settings.kafka,
            app=context.spec.name,
            partitions={},
            rules=self._topics.rules([self._letters_topic]),
            dead_letters=self._letters_topic,
            producer=producer_options(settings),
            timeout_s=settings.transaction_timeout_ms / 1000,
        )

    def batch(self, batch_id: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The function that each task runs: from rows of `LETTER_COLUMNS` to one of `WRITTEN_DDL`."""
        checkpoint = self._context.checkpoint
        # The source may get more partitions at any time.
        partitions = len(checkpoint.end_position(batch_id).offsets[self._topic])
        if partitions > self._partitions:
            self._topics.ensure_internal(self._markers, partitions, MARKER_TOPIC_CONFIG)
            self._partitions = partitions
        letters = _Letters(
            plan=self._plan,
            topic=self._topic,
            letters_topic=self._letters_topic,
            slots=self._markers.removesuffix("-markers"),
            markers=self._markers,
            query_id=checkpoint.query_id() or "",
            batch_id=batch_id,
            source=checkpoint.source_ranges(batch_id),
        )
        return partial(_write_letters, work=letters)


@task_errors
def _write_letters(batches: Iterator[pa.RecordBatch], *, work: _Letters) -> Iterator[pa.RecordBatch]:
    count, replayed = 0, False
    letters: list[DeadLetter] = []
    for batch in batches:
        count += batch.num_rows
        if batch.column("_error").null_count < batch.num_rows:
            letters += _letters_in(batch, work.topic)
    check_input_complete()
    if letters:
        replayed = work.write(letters[0].record.partition, letters)
    if count:
        written = Written(count, by_kind(kinds_of(letters)), int(replayed))
        yield pa.record_batch([[encode_outcome(written)]], schema=_WRITTEN)


def _letters_in(batch: pa.RecordBatch, topic: str) -> Iterator[DeadLetter]:
    for partition, offset, time_ms, key, value, error, kind in zip(
        *(batch.column(name).to_pylist() for name in LETTER_COLUMNS), strict=True
    ):
        if error is not None:
            yield DeadLetter(Record(topic, partition, offset, time_ms, key, value), error, kind)
