"""How a generation of an app that is a `Processor` begins: with the tasks' state of the one before, byte for byte.

A store's row needn't tell all that its app knows, so the tasks' state is copied as it was after the very batch that the
rows are of. The rows themselves become the first records of the new changelogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own custom)

from spark_apps.generations.seed_rules import SeedRules
from spark_apps.processor.packing import pack, packed
from spark_apps.processor.task import OWN, TaskPlan
from state.changelog.partitioner import partition_for
from state.query.definitions import WINDOWED, StoreKind
from state.query.row_times import RowLayout, timed_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE_VARIABLE = "task"
"""What the state of tasks is called in a checkpoint: a map from bytes to bytes for each source partition."""

STATE_DDL = "partition int, state binary"
"""A part of a task's state as Spark SQL has it, packed."""
_STATE = pa.schema([("partition", pa.int32()), ("state", pa.binary())])
_ENTRIES = pa.schema([*_STATE.remove(1), ("key", pa.binary()), ("value", pa.binary())])
_ENTRIES_DDL = "partition int, key binary, value binary"
_ROWS = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_ROWS_DDL = "key binary, value binary"
_PLACED = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32())])
PLACED_DDL = "topic string, key binary, value binary, partition int"
"""A seed's row as a record to be written, but for its headers. Without a partition, the key decides."""

unpack_state = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]]).decode
"""The keys and values in such a part."""


def seed_row(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A row of a store, in version 1, as it is."""
    return key, value


def state_after(spark: SparkSession, checkpoint_dir: Path, batch_id: int) -> DataFrame:
    """The state of all tasks after a finished batch, in rows of `STATE_DDL`: at least one, so that a batch begins.

    Spark keeps the state after the last hundred batches. Raises errors of Spark's, or has them raised by whoever reads
    the rows, if that batch is none of them.
    """
    begin = _nothing_known(spark)
    if not (checkpoint_dir / "state").exists():
        return begin
    # Whoever asks for the session's streams starts what reading a state needs.
    _ = spark.streams
    rows = (
        spark.read.format("statestore")
        .option("batchId", batch_id)
        .option("stateVarName", STATE_VARIABLE)
        .load(str(checkpoint_dir))
    )
    named = rows.select(F.col("key.partition"), F.col("user_map_key.key"), F.col("user_map_value.value"))
    return begin.unionAll(named.mapInArrow(pack_state, STATE_DDL))


def _nothing_known(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(0, pack([]))], STATE_DDL)


def forget(state: DataFrame, gone: DataFrame) -> DataFrame:
    """The state of all tasks without what the processor keeps at the keys in column `key` of `gone`.

    Both frames of state are of `STATE_DDL`. Timers that were scheduled for such a key stay.
    """
    own = gone.select(F.concat(F.lit(OWN), "key").alias("key"))
    kept = state.mapInArrow(_unpack_parts, _ENTRIES_DDL).join(own, "key", "left_anti")
    packed_again = kept.select("partition", "key", "value").mapInArrow(pack_state, STATE_DDL)
    return _nothing_known(state.sparkSession).unionAll(packed_again)


def _unpack_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for partition, part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            entries = [{"partition": partition, "key": key, "value": value} for key, value in unpack_state(part)]
            yield pa.RecordBatch.from_pylist(entries, schema=_ENTRIES)


def pack_state(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs Arrow batches of (partition, key, value)."""
    for batch in batches:
        parts: dict[int, list[tuple[bytes, bytes]]] = {}
        for partition, key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            parts.setdefault(partition, []).append((key, value))
        rows = [(partition, part) for partition, entries in parts.items() for part in packed(entries)]
        yield pa.record_batch(
            [pa.array(column, item.type) for column, item in zip(zip(*rows, strict=True), _STATE, strict=True)],
            schema=_STATE,
        )


def placed_rows(
    batches: Iterable[pa.RecordBatch], *, kinds: Mapping[str, StoreKind], plan: TaskPlan
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of (store, key, value) as rows of `PLACED_DDL`, where a task would write them."""
    for batch in batches:
        rows = [
            (plan.changelogs[store], key, value, _partition(kinds[store], key, plan.partitions[plan.changelogs[store]]))
            for store, key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        if rows:
            columns = zip(zip(*rows, strict=True), _PLACED, strict=True)
            yield pa.record_batch([pa.array(column, item.type) for column, item in columns], schema=_PLACED)


def _partition(kind: StoreKind, key: bytes, count: int) -> int | None:
    """Where a row belongs whose key alone doesn't tell: with the other windows of the key inside it."""
    timed = timed_key(RowLayout(kind), key) if kind in WINDOWED else None
    return None if timed is None else partition_for(timed.key, count)


def _nothing(checkpoint_dir: Path, batch_id: int) -> Mapping[str, Any]:
    del checkpoint_dir, batch_id
    return {}


def _begin(checkpoint_dir: Path, noted: Mapping[str, Any]) -> None:
    del checkpoint_dir, noted


SEED_RULES = SeedRules(
    schema=_ROWS, ddl=_ROWS_DDL, row=seed_row, notes=_nothing, begin=_begin, state=state_after, forget=forget
)
