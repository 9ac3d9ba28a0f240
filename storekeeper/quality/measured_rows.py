"""The columns of `storekeeper.quality.measures`, added to a batch by Spark."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import IntegerType, StringType

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.leaks import disguised_leak
from storekeeper.quality.errors import wrong_condition
from storekeeper.quality.measures import (
    COPIES,
    DISGUISED,
    SPARK_QUOTE,
    condition_column,
    condition_sql,
    usable_conditions,
)


def measured(batch: DataFrame, staged: DataFrame | None, table: CheckedTable, usable: frozenset[str]) -> DataFrame:
    """The batch with a column for each check that the suite can't do on one column of a row. Rows don't change.
    `staged` is the staged table with them and with those before them; None if there are none before. What needs other
    columns than the `usable` ones, those that are there with their declared type, is left out.

    Raises:
        ValidationError: a condition isn't SQL over these columns.
    """
    rows = batch
    for number, condition in usable_conditions(table, set(usable)):
        try:
            rows = rows.withColumn(condition_column(number), functions.expr(condition_sql(condition, SPARK_QUOTE)))
        except AnalysisException as error:  # of the SQL alone: no row was read
            raise wrong_condition(table.name, condition.sql, error) from error
    if any(column.leaks for column in table.columns):
        rows = rows.withColumn(DISGUISED, _disguised(batch))
    if table.unique and usable.issuperset(table.unique):
        rows = _with_copies(rows, batch, staged, table)
    return rows


def _with_copies(rows: DataFrame, batch: DataFrame, staged: DataFrame | None, table: CheckedTable) -> DataFrame:
    """The rows with the number of those in `staged` that have the same key."""
    keyed = batch if staged is None else _in_partitions_of(batch, staged, table)
    counted = [functions.col(name).alias(f"__counted_{name}") for name in table.unique]
    copies = keyed.groupBy(*counted).agg(functions.count("*").alias(COPIES))
    same_key = [functions.col(name).eqNullSafe(functions.col(f"__counted_{name}")) for name in table.unique]
    number = functions.coalesce(COPIES, functions.lit(0)).alias(COPIES)  # 0 would be a row that isn't in `staged`
    return rows.join(copies, same_key, "left").select(*rows.columns, number)


def _in_partitions_of(batch: DataFrame, staged: DataFrame, table: CheckedTable) -> DataFrame:
    """The staged rows that can be copies of the batch's. Only the partitions that are named, as texts, are read."""
    named = {name: functions.col(name).cast("string") for name in table.partition_by if name in table.unique}
    if named:
        [there] = batch.agg(*(functions.collect_set(text).alias(name) for name, text in named.items())).collect()
        for name, text in named.items():
            staged = staged.where(text.isin(there[name]) | text.isNull())
    return staged


def _disguised(batch: DataFrame) -> Column:
    texts = [functions.col(field.name) for field in batch.schema if isinstance(field.dataType, StringType)]
    count_disguised = functions.udf(lambda *values: int(disguised_leak(list(values))), IntegerType())
    return count_disguised(*texts) if texts else functions.lit(0)
