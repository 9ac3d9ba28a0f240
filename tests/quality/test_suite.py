"""What a suite lets pass, on each engine."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from storekeeper.apps.checked_table import CheckedColumn, CheckedTable
from storekeeper.quality.checkpoint import Afterwards, run_checkpoint
from storekeeper.quality.suite import CheckedFrame, for_pandas, for_spark, suite_of
from storekeeper.quality.verdict import Outcome


@pytest.mark.spark
def test_what_is_no_number_is_not_at_least_a_number(spark: SparkSession) -> None:
    table = CheckedTable("prices", (CheckedColumn("price", "double", least=0),))
    for price, passes in ((math.nan, False), (-1.0, False), (0.0, True), (math.inf, True)):
        for frame, regex in (
            (spark.createDataFrame([(price,)], "price double"), for_spark),
            (pd.DataFrame({"price": [price]}), for_pandas),
        ):
            taken: list[tuple[Outcome, ...]] = []
            checks = suite_of(table, CheckedFrame(["price"], frozenset({"price"}), regex))
            run_checkpoint(frame, checks, Afterwards(taken.append))
            assert all(outcome.passed for outcome in taken[0]) is passes
