"""Priorities on a busy machine: first nodes, because users wait for them, then streams, then jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence

STREAM_NICENESS = 5
"""A third of a node's share of processor time, or all of it if no other process wants any."""
JOB_NICENESS = 10
"""What `nice` adds by default: a tenth of a node's share."""
# A stream waits for a running hand-over or rollback, so they get its niceness.
_STREAMS = frozenset({("run",), ("generation", "run"), ("generation", "handover"), ("generation", "rollback")})


def niceness(arguments: Sequence[str]) -> int:
    """The niceness of a command of `python -m spark_apps`: a stream's, also if a stream waits for it, or a job's."""
    is_stream = any(tuple(arguments[: len(command)]) == command for command in _STREAMS)
    return STREAM_NICENESS if is_stream else JOB_NICENESS


def stand_back(by: int) -> None:
    """Gives this process, and all that it starts, a niceness of at least `by`, for good.

    Call it before the process starts threads: on Linux each thread has its own priority, inherited at its start.
    Spark's executors on other machines aren't touched.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(by, os.getpriority(os.PRIO_PROCESS, 0)))
