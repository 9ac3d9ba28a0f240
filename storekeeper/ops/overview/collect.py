"""Collects the platform's state, once for all views. What can't be read is left out and reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from storekeeper.client.client import StateClient
from storekeeper.client.credentials import Credentials
from storekeeper.client.exchange import ClientLimits
from storekeeper.clock import Clock, SystemClock
from storekeeper.configuration import RunDirSettings
from storekeeper.errors import StateError
from storekeeper.locations import Location
from storekeeper.node.settings import load_node_settings
from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview import run_files
from storekeeper.ops.overview.model import App, Overview, Placement, nodes_of, stores_of
from storekeeper.ops.overview.processes import Probes, app_processes, processes_of
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.programs import stopped_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import CALL_TIMEOUT_S, ProcessInfo, running_supervisor

_TIMEOUT_S = 2.0
"""How long a view that is refreshed all the time waits for a supervisor that hangs."""
_NODE_TIMEOUT_S = 5.0
"""The same for a node. Readers give a node 2 s, and 4 in the next round: one that is slower is slow for them too."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """How to ask the query nodes. `client` makes a client, which is closed after each collection."""

    client: Callable[[], StateClient]
    placement: Placement = field(default_factory=Placement)


def collect(
    layout: RunLayout,
    clock: Clock,
    *,
    settings: PlatformSettings | None = None,
    probe: bool = False,
    nodes: Nodes | None = None,
) -> Overview:
    """Looks at everything once. Never raises for what doesn't answer, nor for a missing file.

    Args:
        layout: the run directory; its files are always read.
        clock: for the ages.
        settings: the platform's, to ask its supervisor; None for the files alone.
        probe: whether the broker, Airflow, the nodes and the control API are asked if they work.
        nodes: how to ask the query nodes for what they hold; None to leave stores and nodes out.
    """
    now_ms, known = clock.now_ms(), PlatformApps.of(layout.root)
    infos = [] if settings is None else _supervised(layout, CALL_TIMEOUT_S if probe else _TIMEOUT_S)
    apps = _apps(layout, infos, settings, known, now_ms)
    if nodes is not None:
        apps = _with_places(apps, known, _locations(layout, settings).durable)
    view = Overview(
        now_ms,
        apps=apps,
        snapshots=run_files.snapshots(_locations(layout, settings).tables, known.app_of_store),
        verdicts=run_files.last_verdicts(layout),
        checks=run_files.checks(layout),
        topologies=known.topologies,
    )
    if settings is not None:
        probes = Probes(settings) if probe else None
        ended = run_files.exits(layout)
        stopped = stopped_programs(layout)
        processes = processes_of(infos, apps, ended, settings, known, now_ms=now_ms, probes=probes, stopped=stopped)
        view = replace(view, processes=processes)
    return view if nodes is None else _with_nodes(view, nodes)


def _locations(layout: RunLayout, settings: PlatformSettings | None) -> RunDirSettings:
    return RunDirSettings(run_dir=layout.root) if settings is None else settings


def collect_status(settings: PlatformSettings) -> Overview:
    """Looks at every process once; takes a few seconds at most. Works whether the platform is up or down."""
    return collect(RunLayout(settings.run_dir), SystemClock(), settings=settings, probe=True)


def platform_overview(settings: PlatformSettings, credentials: Credentials) -> Callable[[], Overview]:
    """Collects at each call what Airflow's page shows, from the nodes of the process's settings."""
    own = load_node_settings()

    def client() -> StateClient:
        return StateClient(
            list(own.peer_addresses.values()),
            credentials=credentials,
            limits=ClientLimits(timeout_s=_NODE_TIMEOUT_S),
        )

    names = {address: name for name, address in own.peer_addresses.items()}
    nodes = Nodes(client, Placement(names, own.replicas, own.replicas_by_store))
    return lambda: collect(RunLayout(settings.run_dir), SystemClock(), settings=settings, nodes=nodes)


def _supervised(layout: RunLayout, timeout_s: float) -> Sequence[ProcessInfo]:
    client = running_supervisor(layout, timeout_s)
    try:
        return [] if client is None else client.processes()
    except SupervisorUnreachableError:
        return []  # it has ended since


def _apps(
    layout: RunLayout,
    infos: Sequence[ProcessInfo],
    settings: PlatformSettings | None,
    known: PlatformApps,
    now_ms: int,
) -> Sequence[App]:
    """The apps that have left a heartbeat, and those that should run."""
    beats = run_files.heartbeats(layout, _locations(layout, settings).durable)
    by_app: Mapping[str, ProcessInfo] = {} if settings is None else app_processes(infos, settings, known)
    expected = () if settings is None or infos else known.apps
    order = {name: index for index, name in enumerate(known.apps)}
    names = sorted({*beats, *by_app, *expected}, key=lambda name: (order.get(name, len(order)), name))
    return [App(name, now_ms, beats.get(name), by_app.get(name)) for name in names]


def _with_places(apps: Sequence[App], known: PlatformApps, durable: Location) -> Sequence[App]:
    """The apps with the roles of their generations. It reads each app's journal, which may be in a store."""
    places = run_files.places(durable, known.apps)
    return [
        app if (place := places.get(app.name)) is None else replace(app, role=place.role, change=place.change)
        for app in apps
    ]


def _with_nodes(view: Overview, nodes: Nodes) -> Overview:
    try:
        with nodes.client() as client:
            lags = client.lag()
            errors = [lag.error for lag in lags if lag.error is not None]
            if len(errors) == len(lags):
                return replace(view, unreachable="; ".join(errors))
            listed = client.stores()
    except StateError as error:
        return replace(view, unreachable=str(error))
    stores = stores_of(
        listed,
        lags,
        snapshots=view.snapshots,
        placement=nodes.placement,
        now_ms=view.at_ms,
    )
    return replace(view, stores=stores, nodes=nodes_of(lags, nodes.placement.names))
