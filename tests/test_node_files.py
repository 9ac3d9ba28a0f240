"""A node that finds something else where its files belong refuses to start, at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storekeeper.program import ExitCode


def _start(run_dir: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", "STOREKEEPER_RUN_DIR": str(run_dir)}
    return subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", "node", "a"],
        env={**environment, "STOREKEEPER_KAFKA_BOOTSTRAP": "127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        umask=0o022,
    )


def _link(path: Path) -> None:
    path.parent.mkdir(parents=True)
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere")


def _pipe(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("name", "put", "told"),
    [
        ("state/a", _link, "state/a is a symbolic link"),
        ("state/a/rewards", _link, "state/a/rewards is a symbolic link"),
        ("state/a/rewards/0", _link, "state/a/rewards/0 is a symbolic link"),
        ("secrets/cluster.key", _pipe, "secrets/cluster.key is not a regular file"),
        ("secrets/cluster.key", _link, "secrets/cluster.key is a symbolic link"),
    ],
)
def test_what_is_no_file_or_folder_of_its_own_is_refused(
    tmp_path: Path, name: str, put: Callable[[Path], None], told: str
) -> None:
    put(tmp_path / name)
    tmp_path.chmod(0o755)
    done = _start(tmp_path)
    assert done.returncode == ExitCode.CONFIGURATION
    assert told in done.stderr
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700, "a node alone makes its run directory private"
