from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from quality.hadoop_export import EXPORT
from storekeeper.quality.measured_rows import measured
from storekeeper.quality.measures import COPIES
from tests.staged_lines import COLUMNS, SCHEMA, line


@pytest.mark.spark
def test_copies_are_counted_in_all_that_is_staged_also_where_the_partition_is_null(spark: SparkSession) -> None:
    batch = spark.createDataFrame([line(1), line(2, day=None), line(3)], SCHEMA)
    staged = spark.createDataFrame([line(1), line(2, day=None), line(2, day=None)], SCHEMA)
    rows = measured(batch, staged, EXPORT, frozenset(COLUMNS))
    found = rows.select("_offset", COPIES).collect()
    assert sorted(map(tuple, found)) == [(1, 1), (2, 2), (3, 0)], "a row that isn't staged fails, too"
