"""Testing an app: feed its topology records, look at what it writes and keeps, and let it crash at a named step.

    driver = plain_driver(PAGE_VIEWS)
    driver.append("page_views-events", "a", Event(5))
    driver.crash_at(CrashStep.COMMITTED)
    driver.run()
    assert driver.rows("totals") == [("a", Totals("a", 1, 5))]

`plain_driver` needs neither Spark nor Kafka and takes milliseconds. `SparkDriver`, in a module that loads Spark, takes
the same calls on both. `fixtures` has a pytest fixture that runs a test on either.
"""

from storekeeper.testkit.plain_driver import PARTITIONS, plain_driver
from storekeeper.topology import CrashStep

__all__ = ["PARTITIONS", "CrashStep", "plain_driver"]
