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
        # Without it nobody has made the coordinator that stores of state report to.
        assert not spark.streams.active
        frame = spark.read.format("statestore").load(str(settings.checkpoint_dir("loyalty")))
        rows = frame.select("key", "value").collect()
    finally:
        stop_session(spark)
    # An aggregation's state has its buffers, in the order of the aggregates. Two of them bear the name `sum`.
    found = {key["card"]: [value[0], value[1]] for key, value in rows}
    sys.stdout.write(orjson.dumps(found).decode() + "\n")


if __name__ == "__main__":
    main()
