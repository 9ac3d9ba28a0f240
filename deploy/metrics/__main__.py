"""`python -m deploy.metrics`: serves the metrics of a run directory until TERM. Exit code 78: settings can't work."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry

from deploy.layout import RunLayout
from deploy.metrics.server import metrics_server
from deploy.overview.prometheus import PlatformCollector
from deploy.programs import CONFIGURATION_ERROR_EXIT
from deploy.settings import PlatformSettings
from state.clock import SystemClock
from state.errors import ConfigurationError


def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")],
    host: Annotated[str, typer.Option(help="The IP address; one beyond loopback needs TLS and tokens.")] = "127.0.0.1",
) -> None:
    """Serve `/metrics`."""
    registry = CollectorRegistry()
    try:
        registry.register(PlatformCollector(RunLayout(PlatformSettings.of_platform().run_dir), SystemClock()))
        server = metrics_server(registry, host, port, SystemClock())
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(CONFIGURATION_ERROR_EXIT) from error
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    ended.wait()
    server.shutdown()
    thread.join()
    server.server_close()


if __name__ == "__main__":
    typer.run(serve)
