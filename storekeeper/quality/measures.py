"""What expectations can't ask of a column alone, as SQL that Spark and DuckDB both know.

The columns that it adds to a batch begin with two underscores, which no declared column does.
"""

from __future__ import annotations

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition

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
