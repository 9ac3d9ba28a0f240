"""`loyalty` on Spark: purchases grouped in Python, totals in native state, running totals unrolled in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.dead_letters import counted
from spark_apps.kafka_io import HEADERS_TYPE, read_stream, write_records
from spark_apps.loyalty.spec import REWARDS
from spark_apps.loyalty.topology import CustomerRecord, PrimePurchase, customer_records, group_purchases, read_purchase
from spark_apps.records.money import PointsFactor
from spark_apps.records.poison import PoisonRecordError
from spark_apps.stream import Stream, StreamContext
from state.changelog.headers import ChangelogHeaders
from state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import Column

_PURCHASES = pa.schema(
    [
        ("card", pa.string()),
        ("created_time_ms", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("invoice_number", pa.string()),
        ("amount", pa.float64()),
        ("earned_units", pa.int64()),
    ]
)
_PURCHASES_DDL = (
    "card string, created_time_ms bigint, partition int, offset bigint, invoice_number string, amount double, "
    "earned_units bigint"
)
_GROUPS = pa.schema(
    [
        ("card", pa.string()),
        ("earned_units", pa.int64()),
        ("invoice_count", pa.int64()),
        ("last_invoice_time_ms", pa.int64()),
        ("purchases", pa.binary()),
        ("batch_id", pa.int64()),
    ]
)
_GROUPS_DDL = (
    "card string, earned_units bigint, invoice_count bigint, last_invoice_time_ms bigint, purchases binary, "
    "batch_id bigint"
)
_RECORDS = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
_RECORDS_DDL = "topic string, key binary, value binary"
_POISON = PrimePurchase(None, 0, 0, 0, None, 0.0, 0)  # type: ignore[arg-type]
_BATCH_ID_PROPERTY = "streaming.sql.batchId"


def open_stream(context: StreamContext) -> Stream:
    """Invoices in; notifications and changes of the rewards store out."""
    settings = context.settings
    reading = partial(
        read_purchases,
        factor=PointsFactor(settings.loyalty_factor),
        max_record_bytes=settings.max_record_bytes,
    )
    unrolling = partial(unroll_customers, loyalty_topic=settings.topic_loyalty, changelog_topic=REWARDS.changelog_topic)
    purchases = (
        read_stream(context.spark, settings, settings.topic_pos)
        .select("key", "value", "partition", "offset")
        .mapInArrow(reading, _PURCHASES_DDL)
    )
    grouped = (
        counted(purchases, F.col("card").isNull())
        .where(F.col("card").isNotNull())
        .repartition(settings.shuffle_partitions, "card")
        .mapInArrow(group_customers, _GROUPS_DDL)
    )
    # The newest batch's purchases ride along in the state, found again by the batch id, which only grows and is the
    # same when a batch is run again.
    totals = (
        grouped.groupBy("card")
        .agg(
            F.sum("earned_units").alias("total_units"),
            F.sum("invoice_count").alias("invoice_count"),
            F.max("last_invoice_time_ms").alias("last_invoice_time_ms"),
            F.max_by("purchases", "batch_id").alias("purchases"),
            F.max("batch_id").alias("batch_id"),
        )
        .mapInArrow(unrolling, _RECORDS_DDL)
    )

    def process(batch: DataFrame, batch_id: int) -> None:
        headers = F.when(F.col("topic") == REWARDS.changelog_topic, _headers(context, batch_id))
        write_records(batch.withColumn("headers", headers), batch_id, context)

    return Stream(totals, process, output_mode="update")


def _headers(context: StreamContext, batch_id: int) -> Column:
    headers = ChangelogHeaders(
        app=REWARDS.app,
        store=REWARDS.name,
        generation=context.settings.generation,
        batch_id=batch_id,
        source=context.checkpoint.source_ranges(batch_id),
        schema_version=REWARDS.schema_version,
    )
    pairs = [
        F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
        for name, value in headers.encode()
    ]
    return F.array(*pairs).cast(HEADERS_TYPE)


def read_purchases(
    batches: Iterable[pa.RecordBatch], *, factor: PointsFactor, max_record_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Runs `read_purchase` on Arrow batches of (key, value, partition, offset). Poison becomes a row without a card."""
    for batch in batches:
        rows = []
        for key, value, partition, offset in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            try:
                row = read_purchase(key, value, partition, offset, factor=factor, max_record_bytes=max_record_bytes)
            except PoisonRecordError:
                row = _POISON
            if row is not None:
                rows.append(row)
        yield _record_batch(rows, _PURCHASES)


def group_customers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs `group_purchases` on all rows of a task, and stamps them with the id of the batch."""
    rows = (row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True))
    batch_id = _batch_id()
    yield _record_batch([(*group, batch_id) for group in group_purchases(map(PrimePurchase._make, rows))], _GROUPS)


def unroll_customers(
    batches: Iterable[pa.RecordBatch], *, loyalty_topic: str, changelog_topic: str
) -> Iterator[pa.RecordBatch]:
    """Runs `customer_records` on Arrow batches of customers' totals."""
    batch_id = _batch_id()
    for batch in batches:
        records: list[CustomerRecord] = []
        for *customer, newest in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            if newest != batch_id:
                msg = f"batch {batch_id} met purchases of batch {newest}: its state is not the one before it"
                raise StateError(msg)
            records += customer_records(*customer, loyalty_topic=loyalty_topic, changelog_topic=changelog_topic)
        yield _record_batch(records, _RECORDS)


def _batch_id() -> int:
    task = TaskContext.get()
    batch_id = None if task is None else task.getLocalProperty(_BATCH_ID_PROPERTY)
    if batch_id is None:
        raise StateError("a batch has no id: this runs only inside a streaming query")
    return int(batch_id)


def _record_batch(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
