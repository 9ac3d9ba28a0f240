"""The columns of `quality.measures`, added to a batch by Spark."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import IntegerType, StringType

from quality.errors import wrong_condition
from quality.measures import COPIES, DISGUISED, SPARK_QUOTE, condition_column, condition_sql, usable_conditions
from spark_apps.checked_table import CheckedTable
from spark_apps.leaks import disguised_leak


def measured(batch: DataFrame, earlier: DataFrame | None, table: CheckedTable, usable: frozenset[str]) -> DataFrame:
    """The batch with a column for each check that the suite can't do on one column of a row. Rows don't change.

    Args:
        batch: the rows.
        earlier: the staged table before them; None if there is none.
        table: what the rows must be.
        usable: the columns that are there with their declared type. What needs others is left out.

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
        rows = _with_copies(rows, batch, earlier, table)
    return rows


def _with_copies(rows: DataFrame, batch: DataFrame, earlier: DataFrame | None, table: CheckedTable) -> DataFrame:
    """The rows with the number of those, in the batch and in `earlier`, that have the same key."""
    keys = batch.select(*table.unique)
    if earlier is not None:
        # Only the partitions that the batch has rows of can hold copies.
        searched = [name for name in table.partition_by if name in table.unique]
        before = earlier
        if searched:
            before = earlier.join(functions.broadcast(batch.select(*searched).distinct()), searched, "left_semi")
        keys = keys.unionByName(before.select(*table.unique))
    counted = [functions.col(name).alias(f"__counted_{name}") for name in table.unique]
    copies = keys.groupBy(*counted).agg(functions.count("*").alias(COPIES))
    same_key = [functions.col(name).eqNullSafe(functions.col(f"__counted_{name}")) for name in table.unique]
    return rows.join(copies, same_key, "left").select(*rows.columns, COPIES)


def _disguised(batch: DataFrame) -> Column:
    texts = [functions.col(field.name) for field in batch.schema if isinstance(field.dataType, StringType)]
    found = functions.udf(lambda *values: int(disguised_leak(list(values))), IntegerType())
    return found(*texts) if texts else functions.lit(0)
