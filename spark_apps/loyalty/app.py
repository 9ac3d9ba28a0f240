"""`loyalty` on Spark: purchases grouped in Python, totals in native state, running totals unrolled in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.generations.outputs import as_generation
from spark_apps.kafka_io import cells, read_stream, write_mapped
from spark_apps.loyalty.seeding import GROUPS, GROUPS_DDL, SEED_BATCH_ID
from spark_apps.loyalty.spec import REWARDS
from spark_apps.loyalty.topology import customer_records, group_purchases
from spark_apps.loyalty.upstream import UpstreamMarks, contained_ranges, marks_dir, unseen
from spark_apps.records.money import PointsFactor
from spark_apps.records.purchase import PrimePurchase, Reached, decode_purchase
from spark_apps.sink.records import BY_KEY, SinkRecord
from spark_apps.stream import Stream, StreamContext
from spark_apps.topics import Topics
from state.changelog.headers import ChangelogHeaders, SourceRanges
from state.errors import StateError

_BATCH_ID_PROPERTY = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Upstream:
    """What tasks need to know of the topics before theirs. Travels to the workers."""

    pos: str
    purchase_partitions: int
    marks_dir: Path


def open_stream(context: StreamContext) -> Stream:
    """Purchases in; notifications and changes of the rewards store out."""
    settings, store = context.settings, context.spec.stores[0]
    upstream = Upstream(
        settings.topic_pos,
        len(Topics(settings.kafka_bootstrap).partitions(settings.topic_purchases)),
        marks_dir(context.checkpoint.path),
    )
    grouping = partial(group_rows, factor=PointsFactor(settings.loyalty_factor), marks_dir=upstream.marks_dir)
    # The newest batch's purchases ride along in the state, found again by the batch id, which only grows and is the
    # same when a batch is run again. All of a customer's are in one partition, so in one row.
    totals = (
        with_seed(purchases(context).mapInArrow(grouping, GROUPS_DDL), context)
        .groupBy("card")
        .agg(
            F.sum("earned_units").alias("total_units"),
            F.sum("invoice_count").alias("invoice_count"),
            F.max("last_invoice_time_ms").alias("last_invoice_time_ms"),
            F.max_by("purchases", "batch_id").alias("purchases"),
            F.max("batch_id").alias("batch_id"),
        )
    )

    def process(batch: DataFrame, batch_id: int) -> None:
        records_of = partial(
            unroll_rows,
            upstream=upstream,
            headers=changelog_headers(context, batch_id),
            loyalty_topic=settings.topic_loyalty,
            changelog_topic=store.changelog_topic,
        )
        write_mapped(batch, as_generation(records_of, context.generation, batch_id), batch_id, context, by_key=True)

    return Stream(totals, process, output_mode="update")


def purchases(context: StreamContext) -> DataFrame:
    """The purchases as a stream, from where the generation's input begins."""
    stream = read_stream(context.spark, context.settings, context.settings.topic_purchases, start=context.start)
    return stream.select("key", "value", "partition")


def with_seed(groups: DataFrame, context: StreamContext) -> DataFrame:
    """`groups` and, before the first of them, what the generation was seeded with. All of it comes in batch 0."""
    if not context.is_seeded:
        return groups
    seed = context.spark.readStream.schema(GROUPS_DDL).parquet(str(context.seed_dir))
    # The seed stays part of the query for as long as the generation lives, and Kafka is its first source.
    return groups.unionByName(seed)


def changelog_headers(context: StreamContext, batch_id: int) -> ChangelogHeaders:
    """The headers of a batch's changes, as far as the driver knows them."""
    return ChangelogHeaders(
        app=REWARDS.app,
        store=REWARDS.name,
        generation=context.settings.generation,
        batch_id=batch_id,
        source=context.checkpoint.source_ranges(batch_id),
        schema_version=context.spec.stores[0].schema_version,
    )


def group_rows(batches: Iterator[pa.RecordBatch], *, factor: PointsFactor, marks_dir: Path) -> Iterator[pa.RecordBatch]:
    """Runs `group_purchases` on the rows (key, value, partition) of one partition, without those counted before."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    batch_id = _batch_id()
    partition: int = first.column("partition")[0].as_py()
    files = UpstreamMarks(marks_dir)
    marks = files.before(batch_id, partition)
    groups = list(group_purchases(unseen(_decoded(first, batches), marks), factor))
    files.write(batch_id, partition, marks)
    yield _record_batch([(*group, batch_id) for group in groups], GROUPS)


def _decoded(first: pa.RecordBatch, others: Iterable[pa.RecordBatch]) -> Iterator[PrimePurchase | Reached]:
    for batch in (first, *others):
        yield from map(decode_purchase, cells(batch.column("key")), cells(batch.column("value")))


def unroll_rows(
    batches: Iterator[pa.RecordBatch],
    *,
    upstream: Upstream,
    headers: ChangelogHeaders,
    loyalty_topic: str,
    changelog_topic: str,
) -> Iterator[SinkRecord]:
    """Runs `customer_records` on Arrow batches of customers' totals."""
    encoded = None
    for batch in batches:
        for *customer, newest in zip(*map(cells, batch.columns), strict=True):
            # Only the first batch meets customers of whom it has no purchases: those of the seed.
            if newest != headers.batch_id and (headers.batch_id, newest) != (0, SEED_BATCH_ID):
                msg = f"batch {headers.batch_id} met purchases of batch {newest}: its state is not the one before it"
                raise StateError(msg)
            if encoded is None:
                encoded = with_upstream(headers, upstream).encode()
            for topic, key, value in customer_records(
                *customer, loyalty_topic=loyalty_topic, changelog_topic=changelog_topic
            ):
                yield topic, key, value, encoded if topic == changelog_topic else None, BY_KEY


def with_upstream(headers: ChangelogHeaders, upstream: Upstream) -> ChangelogHeaders:
    """The headers with the part of `pos` that is wholly contained, so that who wrote there knows when it is.

    Every task that groups purchases has written its marks by now: they come before the shuffle.
    """
    files = UpstreamMarks(upstream.marks_dir)
    before, after = (
        [files.before(batch_id, partition) for partition in range(upstream.purchase_partitions)]
        for batch_id in (headers.batch_id, headers.batch_id + 1)
    )
    source: SourceRanges = {**headers.source, upstream.pos: contained_ranges(before, after)}
    return ChangelogHeaders(
        headers.app, headers.store, headers.generation, headers.batch_id, source, headers.schema_version
    )


def _batch_id() -> int:
    task = TaskContext.get()
    batch_id = None if task is None else task.getLocalProperty(_BATCH_ID_PROPERTY)
    if batch_id is None:
        raise StateError("a batch has no id: this runs only inside a streaming query")
    return int(batch_id)


def _record_batch(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
