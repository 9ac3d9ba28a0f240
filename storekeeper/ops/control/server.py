"""The process of the control API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, generate_latest

from storekeeper.clock import Clock
from storekeeper.loopback import is_loopback
from storekeeper.node.node_log import configure_log
from storekeeper.node.query.http.server import serve
from storekeeper.node.security.access import Authenticator, TokenBook
from storekeeper.node.security.exposure import checked_exposure
from storekeeper.node.settings import NodeSettings, load_node_settings
from storekeeper.ops.airflow_home import remove_old_logs, remove_old_runs
from storekeeper.ops.control.access import Callers, Gate, own_token
from storekeeper.ops.control.app import make_app
from storekeeper.ops.control.jobs import Jobs
from storekeeper.ops.control.views import PlatformViews
from storekeeper.ops.environment import child_environment, inherited_environment
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations import exclusive
from storekeeper.ops.overview.prometheus import PlatformCollector
from storekeeper.ops.settings import PlatformSettings

_CLEAN_AFTER_S = 3600.0
_CLEAN_EVERY_S = 24 * 3600.0
_log = structlog.get_logger(__name__)


def run_control(platform: PlatformSettings, host: str, port: int, clock: Clock) -> None:
    """Serves the control API until TERM or INT. Jobs that run then are cancelled: their commands may be run again.

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
    registry = CollectorRegistry()
    registry.register(PlatformCollector(layout, clock))
    with exclusive(layout.jobs / "lock", "control"):
        configure_log(structlog.processors.format_exc_info)
        jobs = Jobs(layout.jobs, inherited_environment(), clock=clock)
        app = make_app(jobs, PlatformViews(platform), partial(generate_latest, registry))
        gate = Gate(app, _callers(layout, nodes, clock), is_open={"/metrics"} if is_loopback(host) else ())
        context = None if tls is None else tls.server_context()
        asyncio.run(serve(gate, host, port, asyncio.Event(), tls=context, listening=_working(jobs, platform, clock)))


@asynccontextmanager
async def _working(jobs: Jobs, platform: PlatformSettings, clock: Clock) -> AsyncIterator[None]:
    """Cleans up after Airflow for as long as the server listens, and ends the jobs then."""
    cleaning = asyncio.create_task(_clean_airflow(platform, clock))
    try:
        yield
    finally:
        cleaning.cancel()
        await asyncio.gather(cleaning, jobs.end(), return_exceptions=True)


async def _clean_airflow(platform: PlatformSettings, clock: Clock) -> None:
    """Removes old runs and logs of the platform's own Airflow, an hour after the start and then once a day."""
    layout = RunLayout(platform.run_dir)
    await asyncio.sleep(_CLEAN_AFTER_S)  # `up` may prepare the database now, and starts everything else
    while True:
        if (layout.airflow / "airflow.db").exists():
            try:
                removed = await asyncio.to_thread(remove_old_logs, layout, clock.now_ms())
                environment = child_environment(platform, inherited_environment())
                failed = await remove_old_runs(layout, environment, clock.now_ms())
                if failed is None:
                    _log.info("airflow_cleaned", log_folders=removed)
                else:
                    _log.warning("airflow_not_cleaned", error=failed)
            except Exception as error:
                _log.warning("airflow_not_cleaned", exc_info=error)
        await asyncio.sleep(_CLEAN_EVERY_S)


def _callers(layout: RunLayout, nodes: NodeSettings, clock: Clock) -> Callers:
    # It always needs a token, nodes on loopback don't: so it also takes those that were made without a configured file.
    named = nodes.tokens_file
    tokens = TokenBook(named or layout.tokens, clock, needed=named is not None)
    return Callers(own_token(layout.control_token), Authenticator(tokens))
