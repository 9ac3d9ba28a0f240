"""Testing a topology: feed it records, look at what it writes and keeps, and let it crash at a named step.

    driver = plain_driver(TICKS)
    driver.pipe("ticks", "HDFC", "1250.40")
    driver.run(Crash.after("state write"))      # the batch is cut off …
    driver.run()                                # … and run again
    assert driver.store("prices").get("HDFC") == {"Symbol": "HDFC", "Price": 1250.40}

`plain_driver` needs neither Spark nor Kafka and takes milliseconds. `SparkDriver`, in a module that loads Spark, takes
the same calls on both. `fixtures` has a pytest fixture that runs a test on either.
"""

from spark_apps.testkit.crash import Crash, Step
from spark_apps.testkit.declared import UndeclaredRowError
from spark_apps.testkit.driver import PlainDriver, ReplayDiffersError, TopologyDriver, plain_driver
from spark_apps.testkit.store_view import StoreView

__all__ = [
    "Crash",
    "PlainDriver",
    "ReplayDiffersError",
    "Step",
    "StoreView",
    "TopologyDriver",
    "UndeclaredRowError",
    "plain_driver",
]
