"""What expectations can't ask of a column alone, as SQL that Spark and DuckDB both know.

The columns that it adds to a batch begin with two underscores, which no declared column does.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import IntegerType, StringType

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition
from storekeeper.apps.leaks import disguised_leak
from storekeeper.quality.errors import wrong_condition

COPIES = "__copies"
"""How many rows of the batch, and of those before it, have the row's key."""
DISGUISED = "__disguised"
"""1 where a text of any column decodes to a leak, 0 elsewhere."""
SPARK_QUOTE = "`"
DUCKDB_QUOTE = '"'

_LEAST_MAGNITUDE = "0.01"
_MOST_MAGNITUDE = "1e300"
_MOST_COUNTED = 10  # whole numbers up to here have buckets of their own


def condition_column(number: int) -> str:
    """The column that is 1 where a row meets the condition of that number, and 0 elsewhere."""
    return f"__condition_{number}"


def fell_column(name: str) -> str:
    """The column that is 1 where a growing field is less than in the earlier snapshot, and 0 elsewhere."""
    return f"__fell_{name}"


def condition_sql(condition: Condition, quote: str) -> str:
    """1 if the condition is true or null for a row, else 0."""
    sql = condition.sql.format_map({name: _quoted(name, quote) for name in condition.columns})
    return f"CASE WHEN NOT ({sql}) THEN 0 ELSE 1 END"


def usable_conditions(table: CheckedTable, usable: set[str]) -> list[tuple[int, Condition]]:
    """The conditions on columns that are there as declared, with their numbers."""
    return [(number, each) for number, each in enumerate(table.conditions, 1) if usable.issuperset(each.columns)]


def bucket_sql(column: CheckedColumn, quote: str) -> str:
    """The bucket of a profile that a value is in.

    No bucket repeats a text that isn't declared, nor a number above 10.
    """
    name = _quoted(column.name, quote)
    null = f"CASE WHEN {name} IS NULL THEN 'null'"
    if column.allowed and column.is_text:
        return f"{null} {_known_texts(column, name)} ELSE 'other' END"
    if column.allowed:
        known = " ".join(f"WHEN {name} = {value} THEN '{value}'" for value in column.allowed)
        return f"{null} {known} ELSE 'other' END"
    if column.sql_type == "boolean":
        return f"{null} WHEN {name} THEN 'true' ELSE 'false' END"
    negative = f"WHEN {name} < 0 THEN 'negative'"
    if column.is_whole:
        small = f"WHEN {name} <= {_MOST_COUNTED} THEN CAST({name} AS STRING)"
        return f"{null} {negative} {small} ELSE concat('2^', {_magnitude(name)}) END"
    unknown = f"WHEN isnan({name}) THEN 'nan'" if not column.is_decimal else ""
    return f"{null} {unknown} {negative} ELSE concat('2^', {_magnitude(name)}) END"


def _known_texts(column: CheckedColumn, name: str) -> str:
    expression = f"lower({name})" if column.any_case else name
    values = [str(value).lower() if column.any_case else str(value) for value in column.allowed]
    return " ".join(f"WHEN {expression} = '{value}' THEN '{value}'" for value in values)


def _magnitude(name: str) -> str:
    double = f"CAST({name} AS DOUBLE)"
    bounded = f"least(greatest({double}, CAST({_LEAST_MAGNITUDE} AS DOUBLE)), CAST({_MOST_MAGNITUDE} AS DOUBLE))"
    return f"CAST(CAST(floor(log2({bounded})) AS INT) AS STRING)"


def _quoted(name: str, quote: str) -> str:
    return f"{quote}{name}{quote}"


def measured(batch: DataFrame, staged: DataFrame | None, table: CheckedTable, usable: frozenset[str]) -> DataFrame:
    """The batch with a column for each check that the suite can't do on one column of a row. Rows don't change.

    Args:
        batch: the rows.
        staged: the staged table with them and with those before them; None if there are none before.
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
