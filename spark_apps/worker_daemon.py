"""The process that Spark forks its Python workers from, with everything that they need loaded beforehand.

Each worker would otherwise load pandas, Arrow and the apps by itself: most of a second of work, and memory that forks
share. Spark starts it by `spark.python.daemon.module`.
"""

import contextlib
import gc
import importlib

import pandas  # noqa: F401 (loaded for the workers)
import pyarrow  # noqa: F401 (loaded for the workers)
import pyspark.sql.streaming.stateful_processor_api_client
import pyspark.worker  # noqa: F401 (loaded for the workers)
from pyspark import daemon

import spark_apps.engine.stages
import spark_apps.hadoop_export.app  # noqa: F401 (loaded for the workers)
from spark_apps.engine.task_input import remembering
from spark_apps.registry import OWN_APPS

# Workers are handed functions of own apps by their names. Loaded here, they are those of when the app began: a worker
# that is forked later would run what was written meanwhile. What can't be loaded ends the app that needs it alone.
for app in OWN_APPS.values():
    if app.module is not None:
        with contextlib.suppress(Exception):
            importlib.import_module(app.module)
daemon.worker = remembering(daemon.worker)

# What is loaded stays. The collector would look through all of it again and again, which costs workers that keep many
# rows a quarter of their time, and memory that forks share.
gc.collect()
gc.freeze()

if __name__ == "__main__":
    daemon.manager()
