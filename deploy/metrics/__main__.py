"""`python -m deploy.metrics`: serves the metrics of a run directory on loopback until TERM."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, start_http_server

from deploy.layout import RunLayout
from deploy.metrics.collector import PlatformCollector
from deploy.settings import PlatformSettings
from state.clock import SystemClock


def serve(port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")]) -> None:
    """Serve `/metrics`."""
    registry = CollectorRegistry()
    registry.register(PlatformCollector(RunLayout(PlatformSettings.load().run_dir), SystemClock()))
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    server.shutdown()
    thread.join()


if __name__ == "__main__":
    typer.run(serve)
