"""The state of the platform, collected from its supervisor, heartbeats and health routes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import httpx2
import psutil

from deploy.airflow_client import AirflowClient
from deploy.app_health import driver_problem, heartbeat_problem, restoring, why_ended
from deploy.broker import answers
from deploy.credentials import AIRFLOW_USER
from deploy.exits import Exits, exits
from deploy.instance import Instance
from deploy.layout import RunLayout
from deploy.programs import AIRFLOW_PROGRAMS, KAFKA, METRICS, node_program
from deploy.run_reader import behind
from deploy.supervision import running_supervisor
from deploy.supervisor_client import ProcessView
from deploy.wanted_apps import kept_apps
from spark_apps.generations.desired_state import Role
from spark_apps.registry import APPS, ON_DEMAND_APPS, SHARED_DRIVER
from spark_apps.runtime.heartbeat import read_heartbeat

_AIRFLOW_COMPONENTS = {
    "airflow-api-server": "metadatabase",
    "airflow-scheduler": "scheduler",
    "airflow-dag-processor": "dag_processor",
    "airflow-triggerer": "triggerer",
}


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process. `state` is the supervisor's; `healthy`: it also does its work; `detail`: why not.

    One that is not `needed` is healthy when it doesn't run. `exits` counts how often it has ended by itself since the
    platform was started, `last_exit` says how it last did.
    """

    name: str
    state: str
    healthy: bool
    pid: int | None
    uptime_s: int | None
    address: str | None
    detail: str
    needed: bool = True
    exits: int = 0
    last_exit: str = ""


@dataclass(frozen=True, slots=True)
class PlatformStatus:
    """Everything that `storekeeper status` shows."""

    run_dir: str
    kafka: str
    airflow: str
    query_nodes: tuple[str, ...]
    delta_root: str
    apps: dict[str, dict[str, Any]]
    processes: tuple[ProcessStatus, ...]

    @property
    def healthy(self) -> bool:
        """Whether there are processes and all are healthy."""
        return bool(self.processes) and all(process.healthy for process in self.processes)

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints. Fields may be added, never renamed."""
        fields = asdict(self)
        return fields | {"healthy": self.healthy}


def collect_status(instance: Instance) -> PlatformStatus:
    """Looks at everything once; takes a few seconds at most. Works whether the platform is up or down."""
    settings, layout = instance.settings, instance.layout
    client = running_supervisor(layout)
    infos = client.processes() if client else []
    problems = Problems(instance, frozenset(info.name for info in infos))
    addresses = _addresses(instance)
    ended = {one.process: one for one in exits(layout)}
    processes = tuple(_with_exits(process_status(info, problems, addresses), ended.get(info.name)) for info in infos)
    return PlatformStatus(
        run_dir=str(layout.root),
        kafka=settings.kafka_bootstrap,
        airflow=settings.airflow_url,
        query_nodes=tuple(settings.node_urls.values()),
        delta_root=str(layout.delta),
        apps=_app_fields(instance, processes),
        processes=tuple(sorted(processes, key=_reading_order(instance))),
    )


class Problems:
    """Finds out what keeps a running process from being healthy. Asks Airflow once for its four components.

    A process that isn't one of the known ones is an app's. This environment may not name it: the platform may have
    been started from another one.

    Args:
        instance: the platform.
        names: of all of its processes.
    """

    def __init__(self, instance: Instance, names: frozenset[str]) -> None:
        self._instance = instance
        self._nodes = _nodes(instance)
        # The apps of the shared driver have no process of their own.
        self._successors = frozenset(map(Role.NEXT.program, names | ON_DEMAND_APPS.keys()))
        self._airflow_health: dict[str, str] | None = None

    def needs(self, info: ProcessView) -> bool:
        """Whether a process should be running.

        The process of a second generation may be stopped, or have ended with 0: usually there is no such generation.
        """
        if info.name not in self._successors:
            return True
        return info.state != "STOPPED" and (info.state, info.exit_status) != ("EXITED", 0)

    def of(self, info: ProcessView) -> str | None:
        """Why a running process is not healthy; None if it is."""
        if info.name == KAFKA:
            return None if answers(self._instance.settings.kafka_bootstrap) else "does not answer"
        if info.name in AIRFLOW_PROGRAMS:
            return self._airflow(_AIRFLOW_COMPONENTS[info.name])
        if info.name == METRICS:
            return _unanswered(self._instance.settings.metrics_url)
        if info.name in self._nodes:
            return node_problem(self._nodes[info.name])
        return driver_problem(self._instance.layout, info.name, info.pid, int(time.time() * 1000))

    def stopped_because(self, info: ProcessView) -> str:
        """Why a process that should run has stopped."""
        if info.state == "EXITED":
            said = why_ended(self._instance.layout, info.name, info.started_s)
            return f"ended with exit code {info.exit_status}: {said or 'see its log'}"
        return info.spawn_error or info.state.lower()

    def _airflow(self, component: str) -> str | None:
        if self._airflow_health is None:
            with AirflowClient(self._instance.settings.airflow_url, AIRFLOW_USER, "") as client:
                self._airflow_health = client.health()
        health = self._airflow_health[component]
        return None if health == "healthy" else health


def _standstill(info: ProcessView) -> str | None:
    try:
        stopped = psutil.Process(info.pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return None
    return "frozen: its process was stopped by a signal" if stopped else None


def node_problem(url: str) -> str | None:
    """Why a query node can't serve; None if `/readyz` answers 200."""
    try:
        answer = httpx2.get(f"{url}/readyz", timeout=3.0, trust_env=False)
    except httpx2.HTTPError:
        return "does not answer"
    return None if answer.status_code == httpx2.codes.OK else "not ready: restoring"


def _unanswered(url: str) -> str | None:
    try:
        httpx2.get(url, timeout=3.0, trust_env=False).raise_for_status()
    except httpx2.HTTPError:
        return "does not answer"
    return None


def process_status(info: ProcessView, problems: Problems, addresses: dict[str, str]) -> ProcessStatus:
    """The status of one supervised process."""
    needed = problems.needs(info)
    problem = (
        (_standstill(info) or problems.of(info))
        if info.state == "RUNNING"
        else problems.stopped_because(info)
        if needed
        else None
    )
    return ProcessStatus(
        name=info.name,
        state=info.state,
        healthy=problem is None,
        pid=info.pid or None,
        uptime_s=int(time.time()) - info.started_s if info.pid else None,
        address=addresses.get(info.name),
        detail=problem or "",
        needed=needed,
    )


def _with_exits(status: ProcessStatus, ended: Exits | None) -> ProcessStatus:
    return status if ended is None else replace(status, exits=ended.count, last_exit=ended.last)


def _addresses(instance: Instance) -> dict[str, str]:
    settings = instance.settings
    own = {
        KAFKA: settings.kafka_bootstrap,
        "airflow-api-server": settings.airflow_url,
        METRICS: settings.metrics_url,
    }
    return own | _nodes(instance)


def _nodes(instance: Instance) -> dict[str, str]:
    return {node_program(name): url for name, url in instance.settings.node_urls.items()}


def _app_fields(instance: Instance, processes: Iterable[ProcessStatus]) -> dict[str, dict[str, Any]]:
    known = {process.name: process for process in processes}
    homes = {app: app for app in kept_apps(instance.settings) if app in known or not known}
    if SHARED_DRIVER in known:
        homes |= dict.fromkeys(ON_DEMAND_APPS, SHARED_DRIVER)
    return {app: _app_field(instance.layout, app, known.get(home)) for app, home in homes.items()}


def _app_field(layout: RunLayout, app: str, process: ProcessStatus | None) -> dict[str, Any]:
    heartbeat = read_heartbeat(layout.heartbeat(app))
    pid = process.pid if process is not None and process.state == "RUNNING" else None
    return {
        "process": None if process is None else process.name,
        "state": process.state if process else "DOWN",
        "healthy": pid is not None and heartbeat_problem(heartbeat, pid, int(time.time() * 1000)) is None,
        "heartbeat": asdict(heartbeat) if heartbeat else None,
        "behind": None if heartbeat is None else behind(heartbeat),
        "restoring": None if heartbeat is None else restoring(heartbeat),
    }


def _reading_order(instance: Instance) -> Any:
    nodes = (node_program(name) for name in instance.settings.node_names)
    known = (KAFKA, *AIRFLOW_PROGRAMS, *APPS, SHARED_DRIVER, *nodes, METRICS)
    order = {name: index for index, name in enumerate(known)}
    return lambda process: order.get(process.name, len(order))
