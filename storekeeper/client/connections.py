"""Connections to nodes for a client that blocks: kept, and used again. HTTP/1.1 as the standard library speaks it.

A query that finds a kept connection goes out from the thread that asks, which also waits for the answer: handing it
to another thread and back would take longer than all the rest. See `StateClient` for when another thread takes over.
"""

from __future__ import annotations

import http.client
import select
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from storekeeper.client.answers import Failure, Outcome, Reply, failure_of
from storekeeper.client.credentials import Credentials
from storekeeper.client.exchange import Ask
from storekeeper.clock import Clock
from storekeeper.errors import StateError

_IDLE_MOST = 64
_IDLE_S = 30.0
_CHUNK_BYTES = 65_536
_ERRORS = (OSError, http.client.HTTPException, StateError, ValueError)


class NodeConnections:
    """One client's connections to its nodes. Uses no proxy and follows no redirects. Thread-safe."""

    def __init__(self, credentials: Credentials, clock: Clock) -> None:
        """Reads the credentials' files.

        Raises:
            ConfigurationError: one can't be read.
        """
        credentials.headers()
        self._credentials = credentials
        self._context = credentials.ssl_context()
        self.clock = clock
        self._lock = threading.Lock()
        self._idle: dict[str, list[tuple[float, http.client.HTTPConnection]]] = {}
        self._closed = False

    def send_kept(self, ask: Ask, body: bytes | None) -> Sent | None:
        """Sends a query on a kept connection. None if there is none: `send` makes one, which may take long."""
        while (connection := self._kept(ask.address)) is not None:
            try:
                return self._sent(connection, ask, body, kept=True)
            except _ERRORS:
                connection.close()  # the node has closed it
        return None

    def send(self, ask: Ask, body: bytes | None) -> Sent | Failure:
        """Sends a query on a new connection."""
        connection = self._made(ask)
        try:
            return self._sent(connection, ask, body, kept=False)
        except _ERRORS as error:
            connection.close()
            return failure_of(error, ask.timeout_s)

    def keep(self, address: str, connection: http.client.HTTPConnection) -> None:
        """Takes back a connection whose answer was read completely."""
        with self._lock:
            idle = self._idle.setdefault(address, [])
            if not self._closed and len(idle) < _IDLE_MOST:
                idle.append((self.clock.monotonic_s() + _IDLE_S, connection))
                return
        connection.close()

    def close(self) -> None:
        """Closes those that are idle, and keeps no more."""
        with self._lock:
            self._closed = True
            idle = [connection for kept in self._idle.values() for _, connection in kept]
            self._idle.clear()
        for connection in idle:
            connection.close()

    def _kept(self, address: str) -> http.client.HTTPConnection | None:
        """The most recently used connection that is still usable."""
        while True:
            with self._lock:
                idle = self._idle.get(address)
                if not idle:
                    return None
                until_s, connection = idle.pop()
            # A node sends nothing unasked: if there is something to read, the connection has ended.
            if until_s > self.clock.monotonic_s() and not _readable(connection, 0):
                return connection
            connection.close()

    def _made(self, ask: Ask) -> http.client.HTTPConnection:
        parts = _parts(ask.address)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=ask.timeout_s, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=ask.timeout_s)

    def _sent(self, connection: http.client.HTTPConnection, ask: Ask, body: bytes | None, *, kept: bool) -> Sent:
        ends_s = self.clock.monotonic_s() + ask.timeout_s
        headers: Mapping[str, str] = {"Accept": "application/json", **self._credentials.headers()}
        if body is not None:
            headers = {**headers, "Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", ask.path, body, headers)
        return Sent(self, connection, ask, ends_s, kept)


@dataclass(frozen=True, slots=True)
class Sent:
    """A query under way. `outcome` is to be called once, by any thread."""

    _connections: NodeConnections
    _connection: http.client.HTTPConnection
    _ask: Ask
    _ends_s: float
    _kept: bool

    def answers_within(self, wait_s: float) -> bool:
        """Waits until an answer begins to arrive or the connection ends; False if neither happened in time."""
        return _readable(self._connection, max(0.0, wait_s))

    def outcome(self) -> Outcome | None:
        """The whole answer; None if the node closed a kept connection at that moment: ask on a new one."""
        try:
            reply, reusable = self._read()
        except ConnectionError as error:
            self.abandon()
            return None if self._kept else failure_of(error, self._ask.timeout_s)
        except _ERRORS as error:
            self.abandon()
            return failure_of(error, self._ask.timeout_s)
        if reusable:
            self._connections.keep(self._ask.address, self._connection)
        else:
            self.abandon()
        return reply

    def abandon(self) -> None:
        """Ends the connection; to be called instead of `outcome`."""
        self._connection.close()

    def _read(self) -> tuple[Reply, bool]:
        self._limit_wait()
        response = self._connection.getresponse()
        content = bytearray()
        while chunk := response.read1(_CHUNK_BYTES):
            content += chunk
            self._limit_wait()
        if response.length:
            raise http.client.IncompleteRead(bytes(content), response.length)
        response.close()  # its connection stays open
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, headers, bytes(content)), not response.will_close

    def _limit_wait(self) -> None:
        left_s = self._ends_s - self._connections.clock.monotonic_s()
        if left_s <= 0:
            raise TimeoutError
        if self._connection.sock is not None:
            self._connection.sock.settimeout(left_s)


@lru_cache(maxsize=1024)
def _parts(address: str) -> SplitResult:
    return urlsplit(address)


def _readable(connection: http.client.HTTPConnection, wait_s: float) -> bool:
    sock = connection.sock
    if sock is None or (isinstance(sock, ssl.SSLSocket) and sock.pending()):
        return True
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(wait_s * 1000))
