"""`python -m tests.faults.crashes.spark_state`: what Spark itself keeps of each customer, as one line of JSON."""

from __future__ import annotations

import sys

import orjson

from spark_apps.session import start_session, stop_session
from spark_apps.settings import AppSettings


def main() -> None:
    """Prints {"<card>": [points in 1/10,000, number of invoices], ...}."""
    settings = AppSettings()
    spark = start_session("spark-state", settings)
    try:
        frame = spark.read.format("statestore").load(str(settings.checkpoint_dir("loyalty")))
        rows = frame.selectExpr("key.*", "value.*").collect()
    finally:
        stop_session(spark)
    # The columns of an aggregation's state are its key and its buffers, in the order of the aggregates.
    sys.stdout.write(orjson.dumps({row[0]: [row[1], row[2]] for row in rows}).decode() + "\n")


if __name__ == "__main__":
    main()
