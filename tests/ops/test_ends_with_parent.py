from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.waiting import eventually
from storekeeper.ops import ends_with_parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")

_SLEEP = "import time; time.sleep(600)"
_FORKING = """
import os, pathlib, sys, time
from storekeeper.ops.ends_with_parent import have_forks_end_with_parent
have_forks_end_with_parent()
if os.fork() == 0:
    if os.fork() == 0:
        draft = pathlib.Path(sys.argv[1] + ".new")
        draft.write_text(f"{os.getppid()} {os.getpid()}")
        draft.replace(sys.argv[1])
    time.sleep(600)
os.wait()
"""
_STARTING = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, sys.argv[1], str(os.getpid()), sys.executable, "-c", sys.argv[2]])
print(child.pid, flush=True)
child.wait()
"""


def test_children_of_forks_end_with_whoever_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    process = subprocess.Popen([sys.executable, "-c", _FORKING, str(told)])
    try:
        eventually(told.exists, 30, "the children run")
        children = [psutil.Process(int(pid)) for pid in told.read_text().split()]
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []


def test_a_program_ends_with_whoever_started_it() -> None:
    command = [sys.executable, "-c", _STARTING, ends_with_parent.__file__, _SLEEP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        eventually(lambda: _SLEEP in child.cmdline(), 30, "it is the program")
        process.kill()
    _, alive = psutil.wait_procs([child], timeout=10)
    assert [each for each in alive if each.status() != psutil.STATUS_ZOMBIE] == []


def test_a_program_whose_parent_is_gone_does_not_begin(tmp_path: Path) -> None:
    script = f"open({str(tmp_path / 'begun')!r}, 'w')"
    done = subprocess.run(
        [sys.executable, ends_with_parent.__file__, str(os.getppid()), sys.executable, "-c", script], check=False
    )
    assert done.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}
    assert not (tmp_path / "begun").exists()
