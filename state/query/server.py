"""Serves an ASGI application with granian inside this process, as RocksDB belongs to one process."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Any

import structlog
from granian.constants import Interfaces
from granian.server.embed import Server

log = structlog.get_logger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(app: Any, host: str, port: int, stop: asyncio.Event) -> None:
    """Serves until TERM or INT arrives, `stop` is set, or the server ends; requests under way are finished.

    Raises:
        OSError: if the port is taken.
    """
    _check_free(host, port)
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    server = Server(app, address=host, port=port, interface=Interfaces.ASGINL, websockets=False, log_enabled=False)
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stop.wait())
    log.info("node_listens", address=f"http://{host}:{port}")
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not serving.done():
        server.stop()
    await serving


def _check_free(host: str, port: int) -> None:
    """Granian shares its port with whoever else listens there; two nodes must not take each other's requests."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            msg = f"can't listen on {host}:{port} ({error.strerror}): stop what uses it, or set STOREKEEPER_PEERS"
            raise OSError(msg) from error
