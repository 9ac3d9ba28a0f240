"""The process of the control API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import structlog

from deploy.control.access import Callers, Gate, own_token
from deploy.control.app import ControlServices, UnknownTableError, make_app
from deploy.control.jobs import Jobs
from deploy.control.keeper import keeper_of
from deploy.control.lineage import lineage_of
from deploy.control.page_views import check_app, data_docs_file, overview_json, topology_of
from deploy.control.settings import OperationsSettings
from deploy.control.watched import watched_programs
from deploy.environment import inherited_environment
from deploy.layout import RunLayout
from deploy.operations import exclusive
from deploy.overview.collect import platform_overview
from deploy.overview.status import collect_status, status_json
from deploy.settings import PlatformSettings
from quality.settings import QualitySettings
from quality.waiting import waiting_of
from spark_apps.generations.commands import generation_status
from spark_apps.registry import gated_tables, stores
from spark_apps.settings import AppSettings
from state.clock import Clock
from state.node_log import configure_log
from state.query.http.server import serve
from state.security.authenticator import Authenticator, TokenBook
from state.security.exposure import checked_exposure
from state.settings import NodeSettings, load_node_settings

_TICK_S = 1.0
_FORGET_EVERY = 3600
_log = structlog.get_logger(__name__)


def run_control(platform: PlatformSettings, host: str, port: int, clock: Clock) -> None:
    """Serves the control API until TERM or INT. Jobs that run then go on, and are found again by the next process.

    Args:
        platform: the settings of the platform.
        host: the IP address to listen on. Beyond loopback it takes certificate and tokens of the nodes' settings.
        port: the port.
        clock: for times of jobs and tokens.

    Raises:
        ConfigurationError: it would listen beyond loopback without TLS or tokens, or a file can't be used.
        AlreadyRunningError: another one serves this run directory.
        OSError: the port is taken.
    """
    layout = RunLayout(platform.run_dir)
    nodes = load_node_settings({"listen_host": host})
    tls = checked_exposure(nodes)
    with exclusive(layout.jobs / "lock", "control"):
        configure_log()
        jobs = Jobs(layout.jobs, inherited_environment(), at_once=platform.jobs_at_once, clock=clock)
        overview = platform_overview(platform, OperationsSettings().credentials)  # type: ignore[call-arg]
        services = ControlServices(
            jobs=jobs,
            clock=clock,
            status=lambda: status_json(collect_status(platform), platform),
            programs=lambda: _programs(layout),
            stores=_stores,
            generations=_generations,
            overview=lambda: overview_json(overview()),
            topology=topology_of,
            data_docs=data_docs_file,
            waiting=partial(_waiting, clock=clock),
            lineage=lambda arguments: lineage_of(arguments, AppSettings.of_platform()),
        )
        gate = Gate(make_app(services), _callers(layout, nodes, clock))
        asyncio.run(_serve(gate, host, port, jobs, None if tls is None else tls.server_context()))


async def _serve(gate: Gate, host: str, port: int, jobs: Jobs, tls: Any) -> None:
    await serve(gate, host, port, asyncio.Event(), tls=tls, listening=_starting(jobs))


@asynccontextmanager
async def _starting(jobs: Jobs) -> AsyncIterator[None]:
    """Starts queued jobs for as long as the server listens."""
    task = asyncio.create_task(_advance(jobs))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _advance(jobs: Jobs) -> None:
    turn = 0
    while True:
        try:
            await asyncio.to_thread(jobs.forget_old if turn % _FORGET_EVERY == 0 else jobs.advance)
        except OSError as error:  # a full disk, for example
            _log.error("jobs_not_advanced", error=str(error))
        turn += 1
        await asyncio.sleep(_TICK_S)  # jobs end in processes of their own: nothing could set an event


def _callers(layout: RunLayout, nodes: NodeSettings, clock: Clock) -> Callers:
    tokens = None if nodes.tokens_file is None else TokenBook(nodes.tokens_file, clock)
    return Callers(own_token(layout.control_token), Authenticator(tokens))


def _programs(layout: RunLayout) -> Mapping[str, list[str]]:
    known = keeper_of(OperationsSettings()).names()  # type: ignore[call-arg]
    return {program: list(apps) for program, apps in watched_programs(known, layout.root).items()}


def _stores() -> list[dict[str, Any]]:
    settings = OperationsSettings()  # type: ignore[call-arg]
    return [
        {"store": name, "app": spec.app, "has_run": settings.checkpoint_dir(spec.app).parent.exists()}
        for name, spec in stores().items()
    ]


def _generations(app: str) -> Mapping[str, Any]:
    check_app(app)
    return generation_status(app)


def _waiting(table: str, clock: Clock) -> Mapping[str, Any] | None:
    if table not in gated_tables():
        msg = f"the quality gate publishes no table {table[:140]!r}: choose one of {', '.join(gated_tables())}"
        raise UnknownTableError(msg)
    found = waiting_of(table, QualitySettings.of_platform(), clock)
    return None if found is None else asdict(found)
