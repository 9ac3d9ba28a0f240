"""A real supervisor with small programs."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.ports import free_ports
from storekeeper.ops.environment import (
    PLATFORM_MARKER,
    airflow_environment,
    child_environment,
    inherited_environment,
)
from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.programs import Program
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import (
    end_orphans,
    find_orphans,
    shut_down,
    start_supervisor,
    stop_all,
    stop_everything,
)
from storekeeper.ops.supervisor_rpc import SupervisorRpc, running_supervisor
from storekeeper.ops.waiting import eventually

_WAIT = "import time; time.sleep(600)"


class Platform:
    """A run directory with a supervisor of given programs."""

    def __init__(self, run_dir: Path) -> None:
        self.settings = PlatformSettings.load(run_dir=run_dir, supervisor_port=free_ports(1)[0])
        self.layout = RunLayout(run_dir)
        self.layout.make()
        self.programs: tuple[Program, ...] = ()

    def start(self, **codes: str) -> SupervisorRpc:
        self.programs = tuple(self._program(name, code) for name, code in codes.items())
        environment = child_environment(self.settings, inherited_environment())
        return start_supervisor(self.layout, self.settings, environment, self.programs)

    def _program(self, name: str, code: str) -> Program:
        paced = str(Path(sys.modules["storekeeper.ops"].__path__[0]) / "paced_exec.py")
        state = str(self.layout.supervisor / f"{name}.start.json")
        command = (sys.executable, paced, state, sys.executable, "-c", code)
        return Program(name, command, start_s=0, stop_s=10, group_stop=False, restart_always=False)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    made = Platform(tmp_path / "run")
    yield made
    stop_everything(made.layout)


def _is_running(client: SupervisorRpc, name: str) -> bool:
    return client.process(name).state == "RUNNING"


def test_it_starts_stops_and_leaves_nothing(platform: Platform) -> None:
    client = platform.start(pos=_WAIT)
    assert running_supervisor(platform.layout) is not None
    assert client.process("pos").state == "STOPPED"
    assert client.start("pos")
    assert not client.start("pos")
    assert eventually(lambda: _is_running(client, "pos"), 60)
    assert stop_all(client, ["pos"], 20)
    assert not client.stop("pos")
    client.start("pos")
    assert shut_down(client, platform.layout, 20)
    assert running_supervisor(platform.layout) is None
    assert find_orphans(platform.layout.root) == []


def test_a_killed_process_comes_back_by_itself(platform: Platform) -> None:
    client = platform.start(pos=_WAIT)
    client.start("pos")
    first = client.process("pos").pid
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: client.process("pos").pid not in {0, first}, 60)


def test_a_configuration_error_is_not_tried_again(platform: Platform) -> None:
    client = platform.start(pos="raise SystemExit(78)", other="raise SystemExit(1)")
    client.start("pos")
    client.start("other")
    log = platform.layout.log("other")
    assert eventually(lambda: log.exists() and "ended soon after its start" in log.read_text(), 60)
    assert client.process("pos").state == "EXITED"
    assert client.process("pos").exit_status == 78
    assert "ended soon" not in platform.layout.log("pos").read_text()


def test_a_killed_supervisor_leaves_orphans_that_are_found_and_ended(platform: Platform) -> None:
    client = platform.start(pos=_WAIT)
    client.start("pos")
    child = client.process("pos").pid
    supervisor = int((platform.layout.supervisor / "supervisord.pid").read_text())
    os.kill(supervisor, signal.SIGKILL)
    assert eventually(lambda: running_supervisor(platform.layout) is None, 60)
    assert child in [process.pid for process in find_orphans(platform.layout.root)]
    assert stop_everything(platform.layout)
    assert not psutil.pid_exists(child)
    assert not stop_everything(platform.layout)


def test_its_password_is_private_and_needed(platform: Platform) -> None:
    platform.start(pos=_WAIT)
    for path in (platform.layout.supervisor_secret, platform.layout.supervisor_conf):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = platform.layout.supervisor_secret
    secret.write_text(secret.read_text().replace('"password": "', '"password": "wrong'))
    assert running_supervisor(platform.layout) is None


def test_no_argv_holds_the_password(platform: Platform) -> None:
    client = platform.start(pos=_WAIT)
    client.start("pos")
    password = platform.layout.supervisor_secret.read_text().split('"password": "')[1].split('"')[0]
    for process in find_orphans(platform.layout.root):
        assert password not in " ".join(process.cmdline())
        assert password not in str(process.environ())


def test_a_supervisor_that_is_gone_is_told_with_the_remedy(platform: Platform) -> None:
    client = platform.start(pos=_WAIT)
    shut_down(client, platform.layout, 20)
    with pytest.raises(SupervisorUnreachableError, match="storekeeper status"):
        client.processes()


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
    settings = PlatformSettings.load(run_dir=tmp_path)
    environment = child_environment(settings, {"PATH": os.defpath}) | airflow_environment(settings)
    code = f"import setproctitle; setproctitle.setproctitle('airflow ' * 100); {_READY_THEN_WAIT}"
    titled = starter.start(code, **environment)
    assert end_orphans(tmp_path) == 1
    assert not starter.is_alive(titled)


def test_it_never_ends_itself_or_its_ancestors(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from storekeeper.ops.supervisor import end_orphans
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
