"""Who comes first on a busy machine: nodes, which somebody waits for, then streams, then jobs, which may wait."""

from __future__ import annotations

import os
from collections.abc import Sequence

STREAM_NICENESS = 5
"""A third of the share of processor time that a node gets, and all of it if nobody else asks."""
JOB_NICENESS = 10
"""What `nice` adds by default: a tenth of a node's share."""
# While a hand-over or a way back is under way, a stream waits for it.
_STREAMS = frozenset({("run",), ("generation", "run"), ("generation", "handover"), ("generation", "rollback")})


def niceness(arguments: Sequence[str]) -> int:
    """How far a command of `python -m spark_apps` stands back: as a stream or what one waits for, or as a job."""
    is_stream = any(tuple(arguments[: len(command)]) == command for command in _STREAMS)
    return STREAM_NICENESS if is_stream else JOB_NICENESS


def stand_back(by: int) -> None:
    """Gives this process, and all that it starts, a niceness of `by` at least, for good.

    To be called before the process has any threads: Linux gives each its own priority, inherited from who starts it.
    Spark's executors on other machines aren't touched.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(by, os.getpriority(os.PRIO_PROCESS, 0)))
