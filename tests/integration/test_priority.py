"""How far processes stand back, as they are started. Under a niceness of its own, a run of these tests says nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from spark_apps.priority import JOB_NICENESS, STREAM_NICENESS

_TOLD_AT_THE_END = """
import atexit, os, runpy, sys
atexit.register(lambda: print("niceness", os.getpriority(os.PRIO_PROCESS, 0)))
module, sys.argv = sys.argv[1], sys.argv[1:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def niceness_of(*command: str) -> int:
    """That of a process once its command has ended, however it ended."""
    done = subprocess.run(
        [sys.executable, "-c", _TOLD_AT_THE_END, *command], capture_output=True, text=True, check=False
    )
    return int(done.stdout.rsplit("niceness", 1)[1])


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (("spark_apps", "snapshot", "no-such-store"), JOB_NICENESS),
        (("spark_apps", "generation", "seed", "no-such-app"), JOB_NICENESS),
        (("spark_apps.maintenance", "growth", "--help"), JOB_NICENESS),
        (("quality", "--help"), JOB_NICENESS),
        (("spark_apps", "run", "no-such-app"), STREAM_NICENESS),
        (("spark_apps", "generation", "rollback", "no-such-app"), STREAM_NICENESS),
        (("state.node", "--help"), 0),
    ],
)
def test_streams_stand_back_behind_nodes_and_jobs_behind_both(command: tuple[str, ...], wanted: int) -> None:
    assert niceness_of(*command) == max(wanted, os.getpriority(os.PRIO_PROCESS, 0))
