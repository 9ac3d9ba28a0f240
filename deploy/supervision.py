"""The supervisor of a run directory: configured, started as a daemon, found again, shut down."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence

import psutil

from dags.operators.errors import SupervisorUnreachableError
from deploy.credentials import make_supervisor_credentials, read_supervisor_credentials
from deploy.errors import NotRunningError, StartError
from deploy.layout import RunLayout
from deploy.programs import Program
from deploy.settings import PlatformSettings
from deploy.supervisor_client import SupervisorClient
from deploy.supervisor_conf import supervisor_conf
from deploy.waiting import eventually
from state.whole_files import write_whole

_log = logging.getLogger(__name__)

_START_TIMEOUT_S = 30


def running_supervisor(layout: RunLayout) -> SupervisorClient | None:
    """A client of the supervisor that runs in this run directory, or None."""
    try:
        client = SupervisorClient.of(read_supervisor_credentials(layout))
    except NotRunningError:
        return None
    return client if client.is_up() else None


def start_supervisor(
    layout: RunLayout, settings: PlatformSettings, environment: Mapping[str, str], programs: Sequence[Program]
) -> SupervisorClient:
    """Starts the supervisor of `programs` as a daemon of its own session and waits until it answers.

    It doesn't start the programs yet.

    Raises:
        StartError: it did not come up.
    """
    credentials = make_supervisor_credentials(layout, settings)
    conf = supervisor_conf(layout, settings, credentials, programs)
    write_whole(layout.supervisor_conf, conf.encode(), private=True)
    for state_file in layout.supervisor.glob("*.start.json"):
        state_file.unlink()
    command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(layout.supervisor_conf)]
    done = subprocess.run(
        command,
        env=dict(environment),
        cwd=layout.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_START_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        cause = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[0]
        msg = f"The supervisor did not start ({cause}): see {layout.supervisor / 'supervisord.log'}."
        raise StartError(msg)
    client = SupervisorClient.of(credentials)
    if not eventually(client.is_up, _START_TIMEOUT_S):
        msg = f"The supervisor did not answer: see {layout.supervisor / 'supervisord.log'}."
        raise StartError(msg)
    return client


def shut_down(client: SupervisorClient, timeout_s: float) -> bool:
    """Stops everything and the supervisor: Airflow first, so that it restarts no app, the broker last.

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


def stop_all(client: SupervisorClient, names: Collection[str], timeout_s: float) -> bool:
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
    if name.startswith("airflow-"):
        return 0
    return 2 if name == "kafka" else 1
