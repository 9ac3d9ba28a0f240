"""The script that makes what the compose file mounts, and the hosts that it knows."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from harness.project import ROOT
from storekeeper.program import storekeeper_command

SCRIPT = ROOT / "storekeeper" / "ops" / "containers" / "prepare.sh"
NODES = ("node-a", "node-b", "node-c")
STREAM_APPS = "stream-apps"
SERVERS = (*NODES, STREAM_APPS)


def prepare(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script for a folder."""
    program = Path(storekeeper_command()[0]).parent
    environment = {"PATH": f"{program}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(SCRIPT), str(folder)], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


def prepared(folder: Path) -> Path:
    """The folder, as the script leaves an empty one. All of a test run have the same secrets."""
    shutil.copytree(_template(), folder)
    return folder


@cache
def _template() -> Path:
    kept = Path(tempfile.mkdtemp(prefix="storekeeper-prepared-"))
    atexit.register(shutil.rmtree, kept)
    done = prepare(kept)
    assert done.returncode == 0, done.stderr
    return kept
