"""Leftover processes, real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.environment import PLATFORM_MARKER, child_environment
from deploy.settings import PlatformSettings
from deploy.supervisor import end_orphans, find_orphans

_READY_THEN_WAIT = "print('ready', flush=True); import time; time.sleep(600)"
_DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_READY_THEN_WAIT}"
_PARENT = f"""
import subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)
{_READY_THEN_WAIT}
"""


class Starter:
    """Starts Python processes, each ready when `start` returns, and ends them all."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, code: str, **environment: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process.pid

    def is_alive(self, pid: int) -> bool:
        return next(process for process in self._processes if process.pid == pid).poll() is None

    def end_all(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def starter() -> Iterator[Starter]:
    started = Starter()
    yield started
    started.end_all()


def test_only_processes_of_the_same_run_directory_are_ended(starter: Starter, tmp_path: Path) -> None:
    ours = starter.start(_READY_THEN_WAIT, **{PLATFORM_MARKER: str(tmp_path / "run")})
    others = starter.start(_READY_THEN_WAIT, **{PLATFORM_MARKER: str(tmp_path / "run2")})
    shell = starter.start(_READY_THEN_WAIT, STOREKEEPER_RUN_DIR=str(tmp_path / "run"))
    assert [process.pid for process in find_orphans(tmp_path / "run")] == [ours]
    assert end_orphans(tmp_path / "run") == 1
    assert not starter.is_alive(ours)
    assert starter.is_alive(others)
    assert starter.is_alive(shell), "a variable that a user exported in a shell marks nothing"


def test_one_that_ignores_term_is_killed(starter: Starter, tmp_path: Path) -> None:
    deaf = starter.start(_DEAF, **{PLATFORM_MARKER: str(tmp_path)})
    assert end_orphans(tmp_path, grace_s=0.3) == 1
    assert not starter.is_alive(deaf)


def test_children_in_sessions_of_their_own_are_ended_too(starter: Starter, tmp_path: Path) -> None:
    parent = starter.start(_PARENT, **{PLATFORM_MARKER: str(tmp_path)})
    children = psutil.Process(parent).children()
    assert len(children) == 1
    assert end_orphans(tmp_path) == 2
    assert not children[0].is_running()


def test_one_that_gives_itself_a_title_is_found(starter: Starter, tmp_path: Path) -> None:
    environment = child_environment(PlatformSettings.load(run_dir=tmp_path), {"PATH": os.defpath})
    code = f"import setproctitle; setproctitle.setproctitle('airflow ' * 100); {_READY_THEN_WAIT}"
    titled = starter.start(code, **environment)
    assert end_orphans(tmp_path) == 1
    assert not starter.is_alive(titled)


def test_it_never_ends_itself_or_its_ancestors(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from deploy.supervisor import end_orphans
print(end_orphans(Path(sys.argv[1])))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={PLATFORM_MARKER: str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n")


def test_nothing_to_end_is_fine(tmp_path: Path) -> None:
    assert end_orphans(tmp_path) == 0
