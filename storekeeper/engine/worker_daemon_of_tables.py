"""The process that Spark forks Python workers from for queries on rows: those of table apps and of jobs.

It has loaded Arrow, and pandas, which PyArrow looks for. They take half as long as all the rest, and no topology needs
them.
"""

import pandas  # noqa: F401 (loaded for the workers)
import pyarrow  # noqa: F401 (loaded for the workers)

import storekeeper.engine.table_sink.stream  # noqa: F401 (loaded for the workers)
from storekeeper.engine.worker_daemon import run

if __name__ == "__main__":
    run()
