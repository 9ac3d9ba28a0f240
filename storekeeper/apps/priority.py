"""Priorities on a busy machine: first nodes, because users wait for them, then streams, then jobs."""

from __future__ import annotations

import logging
import os
import sys

from storekeeper.apps.app_log import configure_logging

STREAM_NICENESS = 5
"""A third of a node's share of processor time, or all of it if no other process wants any."""
JOB_NICENESS = 10
"""What `nice` adds by default: a tenth of a node's share."""


def begin_stream() -> None:
    """Makes this process one of a stream: it logs its events and gives way to nodes."""
    lower_priority(STREAM_NICENESS)
    configure_logging()


def begin_job(*, streams_wait: bool = False) -> None:
    """Makes this process a job: it gives way to streams, and logs its events unless a person watches it. Where a stream
    waits for it (`streams_wait`), it gets a stream's niceness.
    """
    lower_priority(STREAM_NICENESS if streams_wait else JOB_NICENESS)
    configure_logging(logging.WARNING if sys.stderr.isatty() else logging.INFO)


def lower_priority(by: int) -> None:
    """Gives this process, and all that it starts, a niceness of at least `by`, for good.

    Call it before the process starts threads: on Linux each thread has its own priority, inherited at its start.
    Spark's executors on other machines aren't touched.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(by, os.getpriority(os.PRIO_PROCESS, 0)))
