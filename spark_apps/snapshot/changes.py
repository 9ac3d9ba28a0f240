"""A store's changes as Spark sees them: its changelog, folded to the newest value per key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.settings import AppSettings
from spark_apps.snapshot.cut import ChangelogRange, CommittedBatch
from spark_apps.spec import StoreSpec, ValueField
from state.changelog.headers import BATCH_ID, GENERATION
from state.errors import ChangelogError
from state.snapshots.columns import PLACE_COLUMNS, derived_columns, snapshot_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def read_changelog(spark: SparkSession, settings: AppSettings, changelog: ChangelogRange) -> DataFrame:
    """The records of a range: _partition, _offset, _timestamp_ms, _key, _value, generation, batch_id."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap)
        .option("subscribe", changelog.topic)
        .option("kafka.isolation.level", "read_committed")
        .option("startingOffsets", _offsets_json(changelog.topic, changelog.start))
        .option("endingOffsets", _offsets_json(changelog.topic, changelog.end))
        .option("includeHeaders", "true")
        .load()
        .select(
            F.col("partition").alias("_partition"),
            F.col("offset").alias("_offset"),
            F.unix_millis("timestamp").alias("_timestamp_ms"),
            F.col("key").alias("_key"),
            F.col("value").alias("_value"),
            _number(GENERATION).alias("generation"),
            _number(BATCH_ID).alias("batch_id"),
        )
    )


def cut(records: DataFrame, changelog: ChangelogRange, batch: CommittedBatch) -> ChangelogRange:
    """The part of a range before the first record of a batch later than `batch`, per partition.

    Raises:
        ChangelogError: there are records that the app didn't write.
    """
    stamp = F.struct("generation", "batch_id")
    later = stamp > F.struct(F.lit(batch.generation).cast("bigint"), F.lit(batch.batch_id).cast("bigint"))
    found = (
        records.groupBy("_partition")
        .agg(
            F.min(F.when(later, F.col("_offset"))).alias("first_later"),
            F.count_if(F.col("_key").isNull() | F.col("generation").isNull() | F.col("batch_id").isNull()).alias("odd"),
        )
        .collect()
    )
    odd = sum(row["odd"] for row in found)
    if odd:
        msg = f"{odd} records of {changelog.topic} have no key or no batch: is something else writing to this topic?"
        raise ChangelogError(msg)
    ends = {row["_partition"]: row["first_later"] for row in found if row["first_later"] is not None}
    return ChangelogRange(changelog.topic, changelog.start, {**changelog.end, **ends})


def newest_by_key(records: DataFrame, changelog: ChangelogRange) -> DataFrame:
    """The newest record per key before the range's end, tombstones included."""
    ends = F.create_map(*(F.lit(number) for pair in changelog.end.items() for number in pair))
    newest = F.max_by(F.struct("_partition", "_offset", "_timestamp_ms", "_value"), "_offset")
    return (
        records.where(F.col("_offset") < ends[F.col("_partition")])
        .groupBy("_key")
        .agg(newest.alias("newest"))
        .select("_key", "newest.*")
    )


def with_value_fields(changes: DataFrame, store: StoreSpec) -> DataFrame:
    """The changes with the fields of their JSON values as typed columns, null in tombstones."""
    types = {item.name: item.sql_type for item in store.value_fields} | PLACE_COLUMNS
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    return changes.select(*PLACE_COLUMNS).mapInArrow(partial(_typed, fields=store.value_fields), ddl)


def _typed(batches: Iterator[pa.RecordBatch], *, fields: Sequence[ValueField]) -> Iterator[pa.RecordBatch]:
    schema = snapshot_schema(fields)
    for batch in batches:
        typed = derived_columns(batch["_value"].to_pylist(), fields)
        yield pa.record_batch([*typed, *batch.columns], schema=schema)


def _number(header: str) -> Column:
    text = F.expr(f"cast(element_at(filter(headers, h -> h.key = '{header}'), 1).value as string)")
    return text.try_cast("bigint")


def _offsets_json(topic: str, offsets: dict[int, int] | object) -> str:
    return orjson.dumps({topic: offsets}, option=orjson.OPT_NON_STR_KEYS).decode()
