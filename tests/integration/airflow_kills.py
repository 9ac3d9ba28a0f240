"""Kills parts of Airflow while it works, and looks at what is left: copies of apps, and processes without an owner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil

from demo.airflow_runs import AirflowRuns
from harness.meanwhile import repeating
from storekeeper.ops.airflow_home import AIRFLOW_USER, make_airflow_password
from storekeeper.ops.errors import StartError, SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor import find_orphans
from storekeeper.ops.waiting import eventually
from tests.integration.platform_process import supervisor_of

ORPHANS_GONE_S = 60
_BACK_S = 180
_TASK = re.compile(r"^airflow worker -- [0-9a-f]{8}-")
_WORKER = re.compile(r"^airflow worker -- LocalExecutor")


@dataclass(slots=True)
class AppWatch:
    """What was seen of the apps' processes while it watched: pids by app, and the samples with two at once."""

    apps: Sequence[str]
    run_dir: Path
    pids: dict[str, set[int]] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)
    samples: int = 0

    def look(self) -> None:
        """One sample."""
        here: dict[str, dict[int, int]] = {}
        for process in psutil.process_iter(["cmdline", "status", "ppid"]):
            command = process.info["cmdline"] or []
            if command[-3:-1] != ["storekeeper.cli.entry", "run"] or command[-1] not in self.apps:
                continue
            if process.info["status"] != psutil.STATUS_ZOMBIE and _is_ours(process, self.run_dir):
                here.setdefault(command[-1], {})[process.pid] = process.info["ppid"]
        for app, parents in here.items():
            # A child that is about to become another program still bears its parent's command.
            copies = {pid for pid, parent in parents.items() if parent not in parents}
            self.pids.setdefault(app, set()).update(copies)
            self.doubled += [app] if len(copies) > 1 else []
        self.samples += 1

    def watching(self) -> AbstractContextManager[None]:
        """Looks about four times a second until the block ends."""
        return repeating(self.look, 0.25)


def _is_ours(process: psutil.Process, run_dir: Path) -> bool:
    try:
        return process.environ().get("STOREKEEPER_RUN_DIR") == str(run_dir)
    except psutil.Error:
        return False


def strays(run_dir: Path) -> list[str]:
    """Processes of the platform whose parent is none of it any more, except its supervisor."""
    ours = {process.pid: process for process in find_orphans(run_dir)}
    supervisor = int((RunLayout(run_dir).supervisor / "supervisord.pid").read_text())
    found = []
    for pid, process in ours.items():
        try:
            if pid != supervisor and process.ppid() not in ours:
                found.append(f"{pid}: {' '.join(process.cmdline())[:120]}")
        except psutil.Error:
            continue
    return found


def wait_for_no_strays(run_dir: Path) -> list[str]:
    """Returns as soon as there are none, or those that are there after the time that they may take."""
    eventually(lambda: not strays(run_dir), ORPHANS_GONE_S, poll_s=0.5)
    return strays(run_dir)


def ask_for(run_dir: Path, app: str, action: str) -> bool:
    """Has a run of `stream_apps` begin; whether it did, for Airflow may not answer just now."""
    config = (RunLayout(run_dir).airflow / "airflow.cfg").read_text()
    address = next(line.partition("=")[2].strip() for line in config.splitlines() if line.startswith("base_url"))
    password, _ = make_airflow_password(RunLayout(run_dir))
    try:
        with AirflowRuns(address, AIRFLOW_USER, password) as airflow:
            airflow.trigger("stream_apps", {"app": app, "action": action})
    except (StartError, httpx2.HTTPError):
        return False
    return True


def kill_program(run_dir: Path, program: str) -> None:
    """Kills a supervised process and returns once the supervisor has started another."""
    supervisor = supervisor_of(run_dir)
    killed = supervisor.process(program).pid
    assert killed, f"{program} does not run"
    psutil.Process(killed).kill()

    def is_back() -> bool:
        try:
            return supervisor.process(program).pid not in {0, killed}
        except SupervisorUnreachableError:
            return False

    assert eventually(is_back, _BACK_S), f"{program} did not come back"


def kill_task(run_dir: Path, timeout_s: float = 60) -> str | None:
    """Kills a process that runs a task, as soon as there is one; None if there was none in time."""
    killed: list[str] = []

    def kill_one() -> bool:
        for process in find_orphans(run_dir):
            try:
                title = " ".join(process.cmdline()).strip()
                if _TASK.match(title) or (_WORKER.match(title) and "<idle>" not in title):
                    process.kill()
                    killed.append(title)
                    return True
            except psutil.Error:
                continue
        return False

    return killed[0] if eventually(kill_one, timeout_s) else None
