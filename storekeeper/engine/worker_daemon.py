"""The process that Spark forks its Python workers from, with everything that they need loaded beforehand.

Each worker would otherwise load the apps by itself: work, and memory that forks share. Spark starts it by
`spark.python.daemon.module`.
"""

import gc

import pyspark.worker  # noqa: F401 (loaded for the workers)
from pyspark import daemon

# Workers find functions of apps by their names. They are loaded here, when the app starts: otherwise a worker that is
# forked later would run code that was changed since.
import storekeeper.apps.registry
import storekeeper.engine.stages  # noqa: F401 (loaded for the workers)
from storekeeper.engine.task_input import remembering

vars(daemon)["worker"] = remembering(daemon.worker)


def run() -> None:
    """Forks workers until the driver ends."""
    # Loaded modules stay. The collector would scan them again and again: that costs workers that keep many rows a
    # quarter of their time, and memory that forks share. Garbage from loading stays too: it is little.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    run()
