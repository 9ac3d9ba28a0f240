"""Finds out about the platform's processes: what the supervisor reports, and whether each does its work."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping, Sequence

import httpx2
import psutil

from storekeeper.apps.settings import ClientSettings
from storekeeper.client.credentials import Credentials
from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.generations.desired_state import Role
from storekeeper.kafka.clients import answers
from storekeeper.node.security.no_tls import NO_TLS
from storekeeper.ops.airflow_client import AirflowClient
from storekeeper.ops.airflow_home import AIRFLOW_USER
from storekeeper.ops.overview.model import FROZEN, RUNNING, App, Process
from storekeeper.ops.overview.run_files import Exits
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.programs import AIRFLOW_PROGRAMS, CONTROL, KAFKA, node_program
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo

_AIRFLOW_COMPONENTS = {
    "airflow-api-server": "metadatabase",
    "airflow-scheduler": "scheduler",
    "airflow-dag-processor": "dag_processor",
    "airflow-triggerer": "triggerer",
}


NO_ANSWER = "does not answer"
"""The problem of a process that runs and can't be reached."""

STOPPED_ON_REQUEST = "stopped by a person: `storekeeper app start` starts it"
LOST = "a changelog is lost"
"""The beginning of the problem of a node whose rows are of a changelog that Kafka doesn't have any more."""


def addresses(settings: PlatformSettings) -> dict[str, str]:
    """Where the processes of the platform itself answer, by name. None of them runs an app."""
    airflow = {}
    if settings.embeds_airflow:
        airflow = dict.fromkeys(AIRFLOW_PROGRAMS, "") | {"airflow-api-server": settings.airflow_url}
    nodes = {node_program(name): url for name, url in settings.node_urls.items()}
    return {KAFKA: settings.kafka_bootstrap, **airflow, **nodes, CONTROL: settings.control_url}


def app_processes(
    infos: Sequence[ProcessInfo], settings: PlatformSettings, known: PlatformApps
) -> dict[str, ProcessInfo]:
    """The process of each app, by the app's name.

    A process that isn't the platform's own is an app's. These settings may not name it: the platform may have been
    started with others. A process that nothing needs is left out.
    """
    own, names = addresses(settings), {info.name for info in infos}
    apps = [info for info in infos if info.name not in own and is_needed(info, {*names, *known.apps})]
    return {app: info for info in apps for app in known.apps_of(info.name)}


def is_needed(info: ProcessInfo, names: Collection[str]) -> bool:
    """Whether a process should be running.

    The process of a second generation may be stopped, or have ended with 0: usually there is no such generation.

    Args:
        info: the process.
        names: of all processes and apps.
    """
    # An app of the shared driver has no process of its own.
    if info.name not in map(Role.NEXT.program, names):
        return True
    return info.state != "STOPPED" and (info.state, info.exit_status) != ("EXITED", 0)


class Probes:
    """Asks the processes of the platform itself whether they work. Asks Airflow once for its four components. Each may
    take `patience_s`; None is what a view waits.
    """

    def __init__(self, settings: PlatformSettings, *, patience_s: float | None = None) -> None:
        self._settings = settings
        self._broker_s = patience_s or 2.0
        self._patience_s = patience_s or 3.0
        self._nodes = {node_program(name): url for name, url in settings.node_urls.items()}
        self._airflow: dict[str, str] | None = None

    def problem(self, name: str) -> str | None:
        """Why a running process doesn't work; None if it does, or if there is nothing to ask."""
        if name == KAFKA:
            return None if answers(self._settings.kafka, self._broker_s) else NO_ANSWER
        if name in _AIRFLOW_COMPONENTS:
            return self._of_airflow(_AIRFLOW_COMPONENTS[name])
        if name == CONTROL:
            status = _status(f"{self._settings.control_url}/livez", self._patience_s)
            return None if status == httpx2.codes.OK else NO_ANSWER
        if name in self._nodes:
            return node_problem(self._nodes[name], self._patience_s, ClientSettings().credentials)
        return None

    def _of_airflow(self, component: str) -> str | None:
        if self._airflow is None:
            with AirflowClient(self._settings.airflow_url, AIRFLOW_USER, "") as client:
                self._airflow = client.health()
        health = self._airflow[component]
        return None if health == "healthy" else health


def node_problem(url: str, patience_s: float, credentials: Credentials | None = None) -> str | None:
    """Why a query node can't serve; None if `/readyz` answers 200 within `patience_s`. `credentials` are those of the
    platform's own jobs.
    """
    headers = {} if credentials is None else credentials.headers()
    tls = credentials.ssl_context() if credentials is not None and url.startswith("https:") else NO_TLS
    try:
        answer = httpx2.get(f"{url}/readyz", timeout=patience_s, trust_env=False, verify=tls, headers=headers)
    except httpx2.HTTPError:
        return NO_ANSWER
    if answer.status_code == httpx2.codes.OK:
        return None
    try:
        body = answer.json()
        return f"{LOST if body['status'] == 'lost' else 'not ready'}: {body['reason']}"
    except (ValueError, KeyError, TypeError):
        return "not ready"


def _status(url: str, patience_s: float) -> int | None:
    try:
        return httpx2.get(url, timeout=patience_s, trust_env=False, verify=_UNVERIFIED).status_code
    except httpx2.HTTPError:
        return None


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_UNVERIFIED = _unverified()
"""For a process of this host that is asked whether it is alive, by an address that no certificate may have.

Nothing is shown to it, and of its answer the status counts alone.
"""


def processes_of(
    infos: Sequence[ProcessInfo],
    apps: Sequence[App],
    ended: Mapping[str, Exits],
    settings: PlatformSettings,
    known: PlatformApps,
    *,
    now_ms: int,
    probes: Probes | None,
    stopped: Collection[str] = (),
) -> list[Process]:
    """The processes in the order of starting. `infos` is what the supervisor reports, `ended` which processes have
    ended by themselves, `stopped` those that a person has stopped. Without `probes`, each running process of the
    platform itself counts as healthy.
    """
    names, where = {*known.apps, *(info.name for info in infos)}, addresses(settings)
    order = {
        name: index for index, name in enumerate(dict.fromkeys((KAFKA, *AIRFLOW_PROGRAMS, *known.drivers, *where)))
    }
    processes = []
    for info in sorted(infos, key=lambda info: order.get(info.name, len(order))):
        on_request = info.name in stopped and info.state == "STOPPED"
        needed, end = is_needed(info, names) and not on_request, ended.get(info.name)
        theirs = [app for app in apps if app.process is not None and app.process.name == info.name]
        problem = _problem(info, theirs, probes) if needed else None
        processes.append(
            Process(
                name=info.name,
                state=info.state,
                healthy=problem is None,
                pid=info.pid or None,
                uptime_s=(now_ms - info.started_at_ms) // 1000 if info.pid else None,
                address=where.get(info.name) or None,
                detail=problem or (STOPPED_ON_REQUEST if on_request else ""),
                needed=needed,
                exits=0 if end is None else end.count,
                last_exit="" if end is None else end.last,
                last_exit_age_ms=None if end is None else max(0, now_ms - end.last_at_ms),
            )
        )
    return processes


def _problem(info: ProcessInfo, apps: Sequence[App], probes: Probes | None) -> str | None:
    if info.state != RUNNING:
        return _stopped_because(info, apps)
    if is_frozen(info.pid):
        return FROZEN
    ill = next((app for app in apps if app.problem is not None), None)
    if ill is not None:
        return _of(ill, info, str(ill.problem))
    return None if probes is None else probes.problem(info.name)


def _stopped_because(info: ProcessInfo, apps: Sequence[App]) -> str:
    if info.state != "EXITED":
        return info.spawn_error or info.state.lower()
    for app in apps:
        beat = app.beat
        # Heartbeats of earlier processes don't count.
        since_start = beat is not None and beat.updated_at_ms >= info.started_at_ms
        if beat is not None and since_start and beat.state is AppState.FAILED and beat.error:
            return f"ended with exit code {info.exit_status}: {_of(app, info, beat.error)}"
    return f"ended with exit code {info.exit_status}: see its log"


def _of(app: App, info: ProcessInfo, problem: str) -> str:
    return problem if app.name == info.name else f"{app.name}: {problem}"


def is_frozen(pid: int) -> bool:
    """Whether a process was stopped by a signal. One that a debugger holds was not."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False
