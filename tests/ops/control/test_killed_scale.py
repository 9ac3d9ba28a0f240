"""A change of an app's size that is killed right after the size is written, on a real supervisor."""

from __future__ import annotations

import signal
import subprocess
import sys

import orjson

from storekeeper.engine.runtime.scale import AppScale, read_scale
from tests.ops.control.supervised import Supervised, environment

_DYING = """
import os, signal
from storekeeper.ops.control import app_changes
from storekeeper.cli.entry import main

write = app_changes.write_scale

def dying(*arguments):
    write(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

app_changes.write_scale = dying
main()
"""
_SCALE = ("app", "scale", "pos", "--cores", "4", "--output", "json")


def test_a_retry_finishes_it(supervised: Supervised) -> None:
    supervised.rpc.start("pos")
    supervised.await_state("pos", "RUNNING")
    old, given = supervised.rpc.process("pos").pid, environment(supervised.run_dir)
    killed = subprocess.run([sys.executable, "-c", _DYING, *_SCALE], env=given, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read_scale(supervised.run_dir / "scale" / "pos.json") == AppScale(cores=4)

    command = [sys.executable, "-c", "from storekeeper.cli.entry import main; main()", *_SCALE]
    retried = subprocess.run(command, env=given, check=True, capture_output=True)
    answer = orjson.loads(retried.stdout)
    assert answer["changed"] is True
    assert answer["pid"] == supervised.rpc.process("pos").pid != old
