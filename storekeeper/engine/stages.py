"""The stages of a batch as Spark's Python workers run them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec
from pyspark import TaskContext

from storekeeper.clock import SystemClock
from storekeeper.collector import collector_off
from storekeeper.engine.errors import task_errors
from storekeeper.engine.global_tables import GlobalTableCopy, global_tables
from storekeeper.engine.origins import Origins
from storekeeper.engine.parcels import outcome_parcel, records_in, stage_of
from storekeeper.engine.runtime.sink_metrics import encode_outcome
from storekeeper.engine.source_records import SourceRecords
from storekeeper.engine.task_run import TaskRun
from storekeeper.engine.work import AppWork, BatchWork
from storekeeper.stores.rocksdb_options import bound_process_memory
from storekeeper.topology.layout import Layout
from storekeeper.topology.record_order import Ordered, Run, by_upstream, runs_of
from storekeeper.topology.records import RecordFields
from storekeeper.topology.sub_topology import SubTopology


@task_errors
def run_sources(numbers: Iterable[int], *, work: BatchWork) -> Iterator[bytes]:
    """Stage 0: runs the tasks whose numbers come in, on the records that they read. Parcels come out."""
    layout = _app(work.app).layout
    tasks = work.first_tasks(layout)
    for number in numbers:
        sub, partition = tasks[number]
        yield from _run(work, sub, partition, [], Origins(work.source))


@task_errors
def run_gathered(parcels: Iterable[bytes], *, work: BatchWork, stage: int) -> Iterator[bytes]:
    """A later stage: runs one task on the records in its parcels and its own topics.

    Outcomes and parcels for later stages pass through.
    """
    records: list[RecordFields] = []
    origins = Origins(work.source)
    for parcel in parcels:
        if stage_of(parcel) != stage:
            yield parcel
            continue
        with collector_off():
            shuffled = records_in(parcel)
            origins.keep_shuffled(shuffled)
            records += shuffled.records()
    context = TaskContext.get()
    assert context is not None  # noqa: S101 (only Spark runs this)
    sub, partition = _app(work.app).layout.tasks(stage)[context.partitionId()]
    if records or work.takes_part(sub, partition):
        yield from _run(work, sub, partition, records, origins)


def _run(
    work: BatchWork, sub: SubTopology, partition: int, gathered: list[RecordFields], origins: Origins
) -> Iterator[bytes]:
    app, kafka = _app(work.app), work.app.writer.kafka
    read = [SourceRecords(kafka, topic, partition, *ends) for topic, ends in work.ranges(sub, partition).items()]
    with collector_off():
        records = Ordered(_runs(read, gathered, app.layout.topics_to_create, origins), sub)
        outcome, forwarded = TaskRun(work, app.layout, sub, partition, origins, app.global_tables)(records)
        yield from chain.from_iterable(forwarded.values())
        rows = sum(of_topic.rows for of_topic in read)
        yield outcome_parcel(encode_outcome(msgspec.structs.replace(outcome, rows=rows)))


def _runs(
    read: Iterable[SourceRecords], gathered: list[RecordFields], internal: Container[str], origins: Origins
) -> dict[tuple[str, int], Run]:
    """A task's records by run: read as they are wanted, but for those that come out of order."""
    runs = runs_of(gathered)
    for of_topic in read:
        if of_topic.topic in internal:
            records = list(chain.from_iterable(of_topic))
            origins.keep_records(records)
            runs |= runs_of(map(by_upstream, records))
        else:
            runs[of_topic.topic, of_topic.partition] = of_topic
    return runs


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
