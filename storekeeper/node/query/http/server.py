"""Serves an ASGI application inside this process, as RocksDB belongs to one process; hot answers go in front of it.

A connection that is still in its TLS handshake counts like any other.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any

import structlog

from storekeeper.node.query.http.connection import ConnectionLimits, Connections, HotAnswer, has_unread_bytes
from storekeeper.node.query.http.limiter import MOST_COMPARED
from storekeeper.node.query.protection.request_counts import Traffic

log = structlog.get_logger(__name__)

_HANDSHAKE_S = 10.0
_PAUSE_S = 0.1
_TURNS = 8
"""How many turns of the event loop a new connection has at least for its request, however many follow it."""


class Acceptor:
    """Accepts connections as soon as it is made. Belongs to one event loop.

    `listening` is a socket that listens and does not block.
    """

    def __init__(self, listening: socket.socket, connections: Connections, tls: ssl.SSLContext | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._connections = connections
        self._tls = tls
        # Requests of the newest connections wait some turns to be read, and none of them can be closed for the next
        # one. So they must be fewer than are compared. Many handshakes at once, of milliseconds each, hold up requests.
        fewest = min(connections.limits.max_client_connections, MOST_COMPARED)
        self._at_once = max(1, fewest // _TURNS) if tls is None else 1
        self._pending: set[_PendingConnection] = set()
        self._resume()

    def close(self) -> None:
        """Accepts nothing more, and ends the handshakes that are under way."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for pending in list(self._pending):
            pending.abort()

    def _resume(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Accepts several waiting connections at once, so that requests of others don't hold them up."""
        for _ in range(self._at_once):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # Most likely no file descriptor is free. Some are freed when connections end.
                log.warning("no_connection_accepted", error=str(error))
                self._loop.remove_reader(self._listening)
                self._loop.call_later(_PAUSE_S, self._resume)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pending = _PendingConnection(accepted, self._loop.time())
            if not self._connections.limiter.add(pending, address[0]):
                accepted.close()
                continue
            pending.task = self._loop.create_task(self._connect(pending))
            pending.task.add_done_callback(partial(self._connected, pending))
            self._pending.add(pending)

    async def _connect(self, pending: _PendingConnection) -> None:
        handshake_s = None if self._tls is None else _HANDSHAKE_S
        pending.has_transport = True
        try:
            await self._loop.connect_accepted_socket(
                partial(self._connections, pending),
                pending.socket,
                ssl=self._tls,
                ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=handshake_s,
            )
        except (OSError, TimeoutError):
            self._connections.traffic.refuse("handshake")

    def _connected(self, pending: _PendingConnection, _task: asyncio.Task[None]) -> None:
        self._connections.limiter.remove(pending)
        self._pending.discard(pending)
        if not pending.has_transport:
            pending.socket.close()


class _PendingConnection:
    """A connection before its protocol takes it over. `has_transport`: the transport closes the socket."""

    task: asyncio.Task[None]

    def __init__(self, accepted: socket.socket, accepted_s: float) -> None:
        self.socket = accepted
        self.has_transport = False
        self.idle_since_s = accepted_s

    @property
    def has_unread_request(self) -> bool:
        """Whether its first request, or what begins its handshake, may have arrived already."""
        return has_unread_bytes(self.socket)

    def abort(self) -> None:
        """Closes it now."""
        self.task.cancel()


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
    hot: HotAnswer | None = None,
    limits: ConnectionLimits | None = None,
    tls: ssl.SSLContext | None = None,
    listening: AbstractAsyncContextManager[None] | None = None,
    traffic: Traffic | None = None,
) -> None:
    """Serves until TERM or INT arrives or `stop` is set; requests under way are finished.

    `hot` is tried first. `listening` is entered once the port is bound, and left before it is closed: requests that
    arrive until then are still answered. `traffic` counts.

    Raises:
        OSError: if the port is taken.
    """
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    connections = Connections(app, limits or ConnectionLimits(), hot, traffic)
    acceptor = Acceptor(_listening(host, port), connections, tls)
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
        acceptor.close()
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
        raise OSError(f"can't listen on {host}:{port} ({error.strerror}): stop what uses it, or set `peers`") from error
    return listening
