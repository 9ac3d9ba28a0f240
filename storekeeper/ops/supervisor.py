"""The supervisor of a run directory: configured, started, found again, shut down with all that it has left."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import psutil

from storekeeper.errors import ConfigurationError
from storekeeper.generations.desired_state import Role
from storekeeper.ops.environment import PLATFORM_MARKER, inherited_environment
from storekeeper.ops.errors import StartError, SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.marked_processes import end_processes, mark_of
from storekeeper.ops.operations import exclusive
from storekeeper.ops.platform_apps import remember_apps
from storekeeper.ops.programs import CONTROL, STOP_TIMEOUT_S, Program
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import SupervisorCredentials, SupervisorRpc, running_supervisor
from storekeeper.ops.waiting import eventually
from storekeeper.program import NO_RESTART, storekeeper_command
from storekeeper.whole_files import write_whole

_log = logging.getLogger(__name__)

_START_TIMEOUT_S = 30
# The wait grows by a second with each try that fails: this many tries take about a week.
_START_RETRIES = 1000
_LOG_SIZE, _LOG_BACKUPS = "10MB", 3
_FOREGROUND = Path(__file__).with_name("foreground.py")
_RPC_INTERFACE = {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"}


def start_supervisor(
    layout: RunLayout,
    settings: PlatformSettings,
    environment: Mapping[str, str],
    programs: Sequence[Program],
    *,
    foreground: bool = False,
) -> SupervisorRpc:
    """Starts the supervisor of `programs` in a session of its own and waits until it answers.

    It doesn't start the programs yet. In the foreground it stays a child of this process, and says what it does; else
    it is a daemon.

    Raises:
        ConfigurationError: it can't read a path.
        StartError: it did not come up.
    """
    write_conf(layout, settings, programs)
    for record in layout.supervisor.glob("*.start.json"):
        record.unlink()
    command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(layout.supervisor_conf)]
    given: dict[str, Any] = {"env": dict(environment), "cwd": layout.root, "stdin": subprocess.DEVNULL}
    if foreground:
        subprocess.Popen([*command, "-n"], start_new_session=True, **given)
    else:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_TIMEOUT_S, check=False, **given)
        if done.returncode != 0:
            cause = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[0]
            raise StartError(f"The supervisor did not start ({cause}): see {layout.supervisor / 'supervisord.log'}.")
    client = SupervisorRpc.from_secret(layout.supervisor_secret)
    if not eventually(client.is_up, _START_TIMEOUT_S):
        raise StartError(f"The supervisor did not answer: see {layout.supervisor / 'supervisord.log'}.")
    return client


def write_conf(layout: RunLayout, settings: PlatformSettings, programs: Iterable[Program]) -> None:
    """Writes the supervisor's configuration, and its credentials.

    Raises:
        ConfigurationError: the supervisor can't read a path.
    """
    credentials = make_supervisor_credentials(layout, settings)
    conf = supervisor_conf(layout, settings, credentials, programs)
    write_whole(layout.supervisor_conf, conf.encode(), private=True)
    remember_apps(layout.root)


def wait_in_foreground(layout: RunLayout, client: SupervisorRpc) -> NoReturn:
    """Replaces this process with one that waits for the supervisor, its child. On TERM or INT it stops the platform."""
    stop = storekeeper_command("down", "--quiet")
    environment = {**inherited_environment(), "STOREKEEPER_RUN_DIR": str(layout.root)}
    command = [sys.executable, str(_FOREGROUND), str(client.pid()), *stop]
    os.execve(sys.executable, command, environment)  # noqa: S606 (no shell, and systemd's signals reach it)


def shut_down(client: SupervisorRpc, layout: RunLayout, timeout_s: float) -> bool:
    """Stops all processes in order: those that begin jobs, the others, the broker; then the supervisor.

    `timeout_s` bounds each of the three steps. Returns whether the supervisor was gone after them.
    """
    pid = None
    try:
        pid = client.pid()
        for rank in range(3):
            names = [info.name for info in client.processes() if _stop_rank(info.name) == rank]
            stop_all(client, names, timeout_s)
        client.shutdown()
    except SupervisorUnreachableError as error:
        _log.debug("the supervisor went away while it was shut down: %s", error)
    return pid is None or eventually(lambda: _is_gone(pid), timeout_s)


def stop_all(client: SupervisorRpc, names: Collection[str], timeout_s: float) -> bool:
    """Stops processes at the same time. Returns whether all had ended within `timeout_s`."""
    for name in names:
        client.stop(name)
    return eventually(lambda: not any(info.name in names and info.is_wanted for info in client.processes()), timeout_s)


def _is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _stop_rank(name: str) -> int:
    if name.startswith("airflow-") or name == CONTROL:
        return 0
    return 2 if name == "kafka" else 1


def supervisor_conf(
    layout: RunLayout, settings: PlatformSettings, credentials: SupervisorCredentials, programs: Iterable[Program]
) -> str:
    """The configuration. It holds the password of XML-RPC: write it to a private file.

    Raises:
        ConfigurationError: the supervisor can't read a path.
    """
    if "%" in str(layout.root):
        # It expands the paths of logs twice, and what looks like its own folder however it is escaped.
        raise ConfigurationError(f"the supervisor can't read the % in the run_dir {layout.root}: use another one")
    server = {
        "port": f"127.0.0.1:{settings.supervisor_port}",
        "username": credentials.username,
        "password": credentials.password,
    }
    daemon = {
        "logfile": str(layout.supervisor / "supervisord.log"),
        "logfile_maxbytes": "5MB",
        "logfile_backups": "2",
        "pidfile": str(layout.supervisor / "supervisord.pid"),
        "childlogdir": str(layout.logs),
        "directory": str(layout.root),
        "identifier": "storekeeper",
        "umask": "077",
    }
    sections = [
        _section("inet_http_server", server),
        _section("supervisord", daemon),
        _section("rpcinterface:supervisor", _RPC_INTERFACE),
        *(_program_section(program, layout) for program in programs),
    ]
    return "\n".join(sections)


def _program_section(program: Program, layout: RunLayout) -> str:
    options = {
        "command": shlex.join(program.command),
        "directory": str(layout.root),
        # `storekeeper up` and the control API start programs, in their order; the supervisor only restarts them.
        "autostart": "true" if program.starts_itself else "false",
        "autorestart": "true" if program.restart_always else "unexpected",
        "exitcodes": ",".join(map(str, sorted({0, *NO_RESTART}))),
        "startsecs": str(program.start_s),
        "startretries": str(_START_RETRIES),
        "stopsignal": "TERM",
        "stopwaitsecs": str(program.stop_s),
        "stopasgroup": "true" if program.group_stop else "false",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": str(layout.log(program.name)),
        "stdout_logfile_maxbytes": _LOG_SIZE,
        "stdout_logfile_backups": str(_LOG_BACKUPS),
    }
    return _section(f"program:{program.name}", options)


_CUT = re.compile(r"\s[#;]|[\r\n]|\s$")
"""Where the supervisor would end a value: a comment, the end of a line, or blanks that it takes away."""


def _section(name: str, options: dict[str, str]) -> str:
    for key, value in options.items():
        if _CUT.search(value):
            msg = (
                f"the supervisor can't read the {key} {value!r}: its paths must have no # or ; behind a blank, no "
                "blank at the end and no line break; use folders of other names"
            )
            raise ConfigurationError(msg)
    # The supervisor expands %(...)s in every value.
    lines = [f"{key}={value.replace('%', '%%')}" for key, value in options.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def make_supervisor_credentials(layout: RunLayout, settings: PlatformSettings) -> SupervisorCredentials:
    """The run directory's credentials, generated on first use; the address follows the settings."""
    url = f"http://127.0.0.1:{settings.supervisor_port}"
    try:
        known = SupervisorCredentials.read(layout.supervisor_secret)
    except SupervisorUnreachableError:
        known = SupervisorCredentials(url, "storekeeper", secrets.token_urlsafe(24))
    fields = {"url": url, "username": known.username, "password": known.password}
    write_whole(layout.supervisor_secret, f"{json.dumps(fields)}\n".encode(), private=True)
    return SupervisorCredentials(**fields)


def forget_removed_apps(layout: RunLayout, apps: Iterable[str]) -> None:
    """Removes the heartbeats of apps that the platform no longer has, so that they don't show as silent."""
    kept = {layout.heartbeat(role.program(app)) for app in apps for role in Role}
    for path in layout.root.glob("heartbeats/*.json"):
        if path not in kept:
            path.unlink()


def down(layout: RunLayout) -> bool:
    """Stops the platform of a run directory. Safe to repeat.

    Returns whether anything was running.

    Raises:
        AlreadyRunningError: another `up` or `down` is at work there.
    """
    with exclusive(layout.lock, "down"):
        return stop_everything(layout)


def stop_everything(layout: RunLayout) -> bool:
    """Stops what runs in a run directory; the caller holds its lock. Returns whether anything did."""
    client = running_supervisor(layout)
    if client is not None:
        shut_down(client, layout, STOP_TIMEOUT_S + 5)
    stopped = end_orphans(layout.root) > 0 or client is not None
    layout.started_with.unlink(missing_ok=True)
    return stopped


def find_orphans(run_dir: Path) -> list[psutil.Process]:
    """Every live process that the platform of `run_dir` started, except this one and its ancestors.

    Processes whose environment can't be read (another user's) are not ours and left out.
    """
    spared = {psutil.Process().pid, *(parent.pid for parent in psutil.Process().parents())}
    others = (process for process in psutil.process_iter() if process.pid not in spared)
    return [process for process in others if mark_of(process, PLATFORM_MARKER) == str(run_dir)]


def end_orphans(run_dir: Path, grace_s: float = 10.0) -> int:
    """Ends every process that the platform of `run_dir` started. Returns how many there were.

    Looks again until none is left, since a process may start another one while it is being ended.
    """
    ended = 0
    for _ in range(5):
        orphans = find_orphans(run_dir)
        if not orphans:
            break
        ended += len(orphans)
        _log.debug("ending leftover processes: %s", [process.pid for process in orphans])
        end_processes(orphans, grace_s)
    return ended
