"""A changelog as Spark sees it: cut where a batch ends, and folded to the newest value per key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import structlog
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.headers import BATCH_ID, GENERATION
from storekeeper.changelog.skipped import skip_reason
from storekeeper.engine.kafka_rows import kafka_rows
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.engine.runtime.topics import TopicBounds
from storekeeper.schemas.arrow_types import arrow_type
from storekeeper.snapshots.columns import ROW_KEY
from storekeeper.stores.record_context import Header
from storekeeper.topology.records import RecordFields


@dataclass(frozen=True, slots=True)
class ChangelogRange:
    """A range of a changelog topic: next offsets by partition, the end exclusive."""

    topic: str
    start: Mapping[int, int]
    end: Mapping[int, int]


def whole_range(topic: str, bounds: TopicBounds) -> ChangelogRange:
    """All of a topic."""
    return ChangelogRange(topic, bounds.start.offsets[topic], bounds.end.offsets[topic])


if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CHANGES_DDL = (
    "_partition int, _offset bigint, _timestamp_ms bigint, _key binary, _value binary, generation bigint, "
    "batch_id bigint, skipped string"
)
_CHANGES = pa.schema(
    [(name, arrow_type(kind)) for name, kind in (column.split() for column in _CHANGES_DDL.split(", "))]
)
_LONGEST_NUMBER = 19

_log = structlog.get_logger(__name__)


def read_changelog(spark: SparkSession, settings: AppSettings, changelog: ChangelogRange) -> DataFrame:
    """The records of a range: _partition, _offset, _timestamp_ms, _key, _value, generation, batch_id, skipped.

    A record that is not a row has the reason in `skipped`, and is a tombstone without a batch, as for every reader.
    """
    ranges = {partition: (start, changelog.end[partition]) for partition, start in changelog.start.items()}
    return kafka_rows(spark, settings.kafka, changelog.topic, ranges, make=_changes, ddl=_CHANGES_DDL)


def _changes(records: Sequence[RecordFields]) -> Iterator[pa.RecordBatch]:
    columns: list[list[Any]] = [[] for _ in _CHANGES]
    for _, partition, offset, timestamp_ms, key, value, headers in records:
        skipped = skip_reason(key, value, timestamp_ms, headers)
        row = partition, offset, timestamp_ms, key, value, _number(GENERATION, headers), _number(BATCH_ID, headers)
        if skipped is not None:
            row = *row[:4], None, None, None
        for column, cell in zip(columns, (*row, skipped), strict=True):
            column.append(cell)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _CHANGES, strict=True)]
    yield pa.record_batch(arrays, schema=_CHANGES)


def _number(name: str, headers: Sequence[Header]) -> int | None:
    """The number in a header; None if there is none, as a tombstone may have any headers."""
    value = next((value for known, value in headers if known == name), None) or b""
    return int(value) if len(value) < _LONGEST_NUMBER and value.isdigit() else None


def cut(
    records: DataFrame, changelog: ChangelogRange, batch: CommittedBatch, planned: Mapping[int, int]
) -> ChangelogRange:
    """The part of a range before the first record of a batch later than `batch`, per partition.

    Only batches that the app has planned count as later. A record of any other batch is a row and cuts nothing off.

    Args:
        records: those of the range, as `read_changelog` gives them.
        changelog: the range.
        batch: the batch to end with.
        planned: the app's newest planned batch by generation, read after the range's end.
    """
    own = [_later(batch, generation, last) for generation, last in planned.items() if generation >= batch.generation]
    later = reduce(or_, own, F.lit(False))
    markers = (
        records.groupBy("_partition")
        .agg(
            F.min(F.when(later, F.col("_offset"))).alias("first_later"),
            F.count("skipped").alias("skipped"),
            F.max(F.when(F.col("skipped").isNotNull(), F.col("_offset"))).alias("last_skipped"),
        )
        .collect()
    )
    for row in markers:
        if row["skipped"]:
            _log.warning(
                "changelog_records_skipped",
                topic=changelog.topic,
                partition=row["_partition"],
                records=row["skipped"],
                last_offset=row["last_skipped"],
            )
    ends = {row["_partition"]: row["first_later"] for row in markers if row["first_later"] is not None}
    return ChangelogRange(changelog.topic, changelog.start, {**changelog.end, **ends})


def _later(batch: CommittedBatch, generation: int, last: int) -> Column:
    first = batch.batch_id + 1 if generation == batch.generation else 0
    return (F.col("generation") == generation) & F.col("batch_id").between(first, last)


def newest_by_key(records: DataFrame, changelog: ChangelogRange) -> DataFrame:
    """The newest record per partition and key before the range's end, tombstones included.

    A row belongs to the partition of its record, for every reader: tasks may write one key in several partitions, and
    offsets of two partitions say nothing about which is newer.
    """
    ends = F.create_map(*(F.lit(number) for pair in changelog.end.items() for number in pair))
    newest = F.max_by(F.struct("_offset", "_timestamp_ms", "_value"), "_offset")
    return (
        records.where((F.col("_offset") < ends[F.col("_partition")]) & F.col("_key").isNotNull())
        .groupBy(*ROW_KEY)
        .agg(newest.alias("newest"))
        .select(*ROW_KEY, "newest.*")
    )
