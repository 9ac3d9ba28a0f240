"""Serves an ASGI application inside this process, as RocksDB belongs to one process; hot answers go in front of it."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import structlog

from state.query.http.connection import ConnectionLimits, Connections
from state.query.http.entrance import Entrance
from state.query.protection.traffic import Traffic

log = structlog.get_logger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BACKLOG = 1024
_SWEEP_S = 1.0
_DRAIN_S = 10.0


async def serve(
    app: Any,
    host: str,
    port: int,
    stop: asyncio.Event,
    *,
    limits: ConnectionLimits | None = None,
    tls: ssl.SSLContext | None = None,
    listening: AbstractAsyncContextManager[None] | None = None,
    traffic: Traffic | None = None,
) -> None:
    """Serves until TERM or INT arrives or `stop` is set; requests under way are finished.

    If the application has `hot_answers`, they are tried first; see `HotAnswers`. `listening` is entered once the port
    is bound, and left before it is closed: requests that arrive until then are still answered. `traffic` counts.

    Raises:
        OSError: if the port is taken.
    """
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    connections = Connections(app, limits or ConnectionLimits(), getattr(app, "hot_answers", None), traffic)
    entrance = Entrance(_listening(host, port), connections, tls)
    # The objects that exist now stay. Collecting garbage among them would hold up requests for 60 ms each time.
    gc.collect()
    gc.freeze()
    log.info("node_listens", address=f"{'https' if tls else 'http'}://{host}:{port}")
    sweeping = asyncio.create_task(_sweep(connections))
    try:
        async with listening or nullcontext():
            await stop.wait()
    finally:
        sweeping.cancel()
        entrance.close()
        await connections.drain(_DRAIN_S)


async def _sweep(connections: Connections) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        connections.sweep()


def _listening(host: str, port: int) -> socket.socket:
    """A socket that doesn't share its port: two nodes must not take each other's requests."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        msg = f"can't listen on {host}:{port} ({error.strerror}): stop what uses it, or set STOREKEEPER_PEERS"
        raise OSError(msg) from error
    return listening
