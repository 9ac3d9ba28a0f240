"""The session of tests as the catalogue of a user's Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def spark(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests, without entries."""
    yield spark_session
    # `listTables` can't decode its rows in a session that interprets its plans.
    for table in spark_session.sql("SHOW TABLES").collect():
        spark_session.sql(f"DROP TABLE IF EXISTS `{table.tableName}`")
