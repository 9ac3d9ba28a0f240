"""How far processes stand back, as they are started. Under a niceness of its own, a run of these tests says nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from storekeeper.apps.priority import JOB_NICENESS, STREAM_NICENESS

_TOLD_AT_THE_END = """
import atexit, os, sys
atexit.register(lambda: print("niceness", os.getpriority(os.PRIO_PROCESS, 0)))
from storekeeper.cli.entry import main
main()
"""


def niceness_of(*command: str) -> int:
    """That of a process once its command has ended, however it ended."""
    done = subprocess.run(
        [sys.executable, "-c", _TOLD_AT_THE_END, *command], capture_output=True, text=True, check=False
    )
    return int(done.stdout.rsplit("niceness", 1)[1])


_LONG = pytest.mark.long("test_priority.py has a command of each kind")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (("snapshot", "create", "no-such-store"), JOB_NICENESS),
        pytest.param(("snapshot", "optimize", "no-such-store"), JOB_NICENESS, marks=_LONG),
        pytest.param(("generation", "seed", "no-such-app"), JOB_NICENESS, marks=_LONG),
        pytest.param(("generation", "plan", "no-such-app"), JOB_NICENESS, marks=_LONG),
        pytest.param(("generation", "retire", "no-such-app"), JOB_NICENESS, marks=_LONG),
        pytest.param(("app", "upgrade", "no-such-app", "--dry-run"), JOB_NICENESS, marks=_LONG),
        (("check", "no-such-table"), JOB_NICENESS),
        (("verify", "no-such-store"), JOB_NICENESS),
        pytest.param(("cleanup", "run", "no-such-store", "x"), JOB_NICENESS, marks=_LONG),
        pytest.param(("quarantine", "show", "no-such-table", "no-such-batch"), JOB_NICENESS, marks=_LONG),
        (("run", "no-such-app"), STREAM_NICENESS),
        (("run", "--next", "no-such-app"), STREAM_NICENESS),
        pytest.param(("generation", "handover", "no-such-app"), STREAM_NICENESS, marks=_LONG),
        pytest.param(("generation", "rollback", "no-such-app"), STREAM_NICENESS, marks=_LONG),
        (("node", "not/a/name"), None),
        (("stores", "--node", "nowhere"), None),
    ],
)
def test_streams_stand_back_behind_nodes_and_jobs_behind_both(command: tuple[str, ...], wanted: int | None) -> None:
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert niceness_of(*command) == (mine if wanted is None else max(wanted, mine))
