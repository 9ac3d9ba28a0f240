"""The SQL of conditions and buckets, as DuckDB runs it. Spark runs it in test_table_gate.py and test_own_table.py."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from storekeeper.apps.checked_table import CheckedColumn, Condition
from storekeeper.quality.measures import DUCKDB_QUOTE, bucket_sql, condition_sql


def asked(sql: str, **values: str) -> Any:
    columns = ", ".join(f'{value} AS "{name}"' for name, value in values.items())
    with duckdb.connect() as session:
        row = session.execute(f"SELECT {sql} FROM (SELECT {columns})").fetchone()  # noqa: S608 (our own)
    assert row is not None
    return row[0]


@pytest.mark.parametrize(("paid", "met"), [("1", 1), ("2", 1), ("3", 0), ("NULL", 1)])
def test_a_condition_that_is_null_is_met(paid: str, met: int) -> None:
    condition = Condition("x", "{paid} <= {order}")
    assert asked(condition_sql(condition, DUCKDB_QUOTE), paid=f"{paid}::INT", order="2") == met


STATUS = CheckedColumn("it", "string", allowed=("open", "PAID"), drift=True)
ANY_CASE = CheckedColumn("it", "string", allowed=("open", "PAID"), any_case=True, drift=True)
COUNT = CheckedColumn("it", "bigint", drift=True)
CODE = CheckedColumn("it", "int", allowed=(1, 2), drift=True)
PRICE = CheckedColumn("it", "decimal(18,4)", drift=True)
SHARE = CheckedColumn("it", "double", drift=True)
FLAG = CheckedColumn("it", "boolean", drift=True)


@pytest.mark.parametrize(
    ("column", "value", "bucket"),
    [
        (STATUS, "'open'", "open"),
        (STATUS, "'OPEN'", "other"),
        (STATUS, "'meera'", "other"),
        (STATUS, "NULL::VARCHAR", "null"),
        (ANY_CASE, "'Paid'", "paid"),
        (CODE, "2", "2"),
        (CODE, "77", "other"),
        (COUNT, "-5", "negative"),
        (COUNT, "0", "0"),
        (COUNT, "10", "10"),
        (COUNT, "11", "2^3"),
        (COUNT, "9889127612", "2^33"),
        (PRICE, "0::DECIMAL(18,4)", "2^-7"),
        (PRICE, "59.97::DECIMAL(18,4)", "2^5"),
        (PRICE, "-1::DECIMAL(18,4)", "negative"),
        (SHARE, "'nan'::DOUBLE", "nan"),
        (SHARE, "'inf'::DOUBLE", "2^996"),
        (SHARE, "NULL::DOUBLE", "null"),
        (FLAG, "true", "true"),
        (FLAG, "NULL::BOOLEAN", "null"),
    ],
)
def test_a_value_is_in_a_bucket_that_does_not_repeat_it(column: CheckedColumn, value: str, bucket: str) -> None:
    assert asked(bucket_sql(column, DUCKDB_QUOTE), it=value) == bucket
