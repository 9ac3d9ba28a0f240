"""The stages of a batch as Spark's Python workers run them, on Arrow batches."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from storekeeper.clock import SystemClock
from storekeeper.engine.errors import task_errors
from storekeeper.engine.global_tables import GlobalTableCopy, global_tables
from storekeeper.engine.origins import Origins
from storekeeper.engine.rows import outcome_row, passed_rows, records_of
from storekeeper.engine.task_run import TaskRun
from storekeeper.engine.work import AppWork, BatchWork
from storekeeper.stores.rocksdb_options import bound_process_memory
from storekeeper.topology.layout import Layout
from storekeeper.topology.record_order import Ordered, by_upstream
from storekeeper.topology.records import RecordFields
from storekeeper.topology.sub_topology import SubTopology

encode_outcome = msgspec.msgpack.Encoder().encode


@task_errors
def run_sources(batches: Iterator[pa.RecordBatch], *, work: BatchWork) -> Iterator[pa.RecordBatch]:
    """Stage 0, for one partition of one topic: runs its task, or passes the rows on to the task's later stage."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    layout = _app(work.app).layout
    topic, partition = first.column("topic")[0].as_py(), first.column("partition")[0].as_py()
    sub, rows = layout.reader(topic), chain([first], batches)
    stage = layout.stages[sub.number]
    if stage == 0:
        parts: Iterable[Sequence[RecordFields]] = Parts(rows)
        origins = Origins(work.source)
        with collector_off():
            if topic in layout.topics_to_create:
                parts = _ordered(chain.from_iterable(parts), layout, sub, origins)
            yield from _run(work, sub, partition, parts, origins)
        return
    place = layout.place(sub, partition)
    for batch in rows:
        yield passed_rows(batch, stage, np.full(batch.num_rows, place, np.int32))


@task_errors
def run_gathered(batches: Iterator[pa.RecordBatch], *, work: BatchWork, stage: int) -> Iterator[pa.RecordBatch]:
    """A later stage: runs one task on its gathered rows. Outcomes and rows of later stages pass through."""
    # Batch by batch: Arrow could not put more than 2 GiB of values together.
    records: list[RecordFields] = []
    origins = Origins(work.source)
    for batch in batches:
        is_own = pc.fill_null(pc.equal(batch.column("stage"), stage), False)
        others = batch.filter(pc.invert(is_own))
        if others.num_rows:
            yield others
        own = batch.filter(is_own)
        origins.keep_rows(own)
        with collector_off():
            records += records_of(own)
    if not records:
        return
    layout = _app(work.app).layout
    context = TaskContext.get()
    assert context is not None  # noqa: S101 (only Spark runs this)
    sub, partition = layout.tasks(stage)[context.partitionId()]
    with collector_off():
        yield from _run(work, sub, partition, _ordered(records, layout, sub, origins), origins)


class Parts:
    """The records of a task, part by part. They are kept as Spark sent them, for a batch that is run again."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._kept: list[pa.RecordBatch] = []

    def __iter__(self) -> Iterator[list[RecordFields]]:
        yield from (list(records_of(batch)) for batch in self._kept)
        for batch in self._batches:
            self._kept.append(batch)
            yield list(records_of(batch))


def _ordered(records: Iterable[RecordFields], layout: Layout, sub: SubTopology, origins: Origins) -> Ordered:
    """All records of a task in the order in which it takes them."""
    internal = layout.topics_to_create
    if any(source.topic in internal for source in sub.sources):
        records = list(records)
        origins.keep_records([record for record in records if record[0] in internal])
        records = [by_upstream(record) if record[0] in internal else record for record in records]
    return Ordered(records, sub)


def _run(
    work: BatchWork, sub: SubTopology, partition: int, records: Iterable[Sequence[RecordFields]], origins: Origins
) -> Iterator[pa.RecordBatch]:
    app = _app(work.app)
    outcome, forwarded = TaskRun(work, app.layout, sub, partition, origins, app.global_tables)(records)
    yield from chain.from_iterable(forwarded.values())
    yield outcome_row(encode_outcome(outcome))


@dataclass(frozen=True, slots=True)
class _App:
    """What a worker process caches for an app.

    Attributes:
        found: the topics as a start of the app found them.
        layout: its tasks on them.
        global_tables: the copies of its global tables, by store.
    """

    found: object
    layout: Layout
    global_tables: Mapping[str, GlobalTableCopy]


_APPS: dict[str, _App] = {}


@contextmanager
def collector_off() -> Iterator[None]:
    """Disables the garbage collector. It would scan a batch's records again and again for cycles, and they have none:
    that took a fifth of the time of app `pos`. Reference counting should free the whole batch at the end.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _app(work: AppWork) -> _App:
    """What this process caches for the app: built once for each start of its query, as topics may have changed."""
    cached, found = _APPS.get(work.query_id), (work.partitions, work.changelogs, work.global_topics)
    if cached is None or cached.found != found:
        for table in {} if cached is None else cached.global_tables.values():
            table.close()
        bound_process_memory(work.settings.state_memory_mb * 1024 * 1024)
        layout = work.layout()
        tables = global_tables(
            layout.topology, work.global_topics, work.store_root / "global", work.writer.kafka, SystemClock()
        )
        cached = _APPS[work.query_id] = _App(found, layout, tables)
    return cached
