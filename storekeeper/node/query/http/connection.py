"""HTTP connections and their places: the most frequent request is answered as it arrives, all others go to the app.

A plain request for a hot path, whole in one segment, is answered without a task and without a parser of every header.
Everything else goes unchanged to uvicorn's parser, which runs the ASGI application. The limits here hold for both:
how long a request's head may be, and how long a peer may take to send a request or to read an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from storekeeper.node.query.protection.guard import PROVEN
from storekeeper.node.query.protection.traffic import Traffic

_TURNS_TO_READ = 3
"""The loop reads what has arrived in one turn. It may be in the middle of one."""
_END = b"\r\n\r\n"
_LINE_ENDS = b"\r\n"
_LEAST_NEWCOMERS = 16
_LOOKS = 16
"""The most sockets that are looked into to make room for one more connection."""
HotAnswer = Callable[[bytes], bytes | None]
"""The whole response to a whole request that can be answered at once; None leaves it to the application."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a connection.

    Attributes:
        max_connections: the most proven connections at the same time; see `Places`.
        max_client_connections: the most of these from one IP address.
        max_head_bytes: the most bytes of a request line and its headers: what the guard allows, and some room.
        request_s: from a request's first byte to its last, and for an answer to be taken.
        idle_s: between requests.
    """

    max_connections: int = 1024
    max_client_connections: int = 512
    max_head_bytes: int = 52 << 10
    request_s: float = 10.0
    idle_s: float = 60.0


class Guest(Protocol):
    """A connection, or one that is still in its TLS handshake."""

    @property
    def resting_since_s(self) -> float | None:
        """Since when it has been idle; None while a request is under way."""
        ...

    @property
    def is_sent_to(self) -> bool:
        """Whether bytes have arrived that nobody has read yet."""
        ...

    def abort(self) -> None:
        """Closes it now."""
        ...


class Places:
    """The places that connections take: a pool for those that have proven themselves, and one for all others.

    A connection is *proven* once it has carried a whole request of an authorized caller. Until then it has a place in
    the pool of newcomers. When that pool is full, its oldest connection is closed for the next one. So connections that
    send nothing, half a request or no valid token can't keep callers out. A proven connection is closed only while it
    is idle and no request waits in its socket. Belongs to one event loop.

    Args:
        most: the most proven connections at the same time; newcomers get half as many places, at least 16.
        most_of_client: the most proven connections from one IP address.
        traffic: counts connections, and those that were closed or refused for lack of room.

    Attributes:
        most_newcomers: places for those that have not proven themselves.
    """

    def __init__(self, most: int, most_of_client: int, traffic: Traffic) -> None:
        self._most = most
        self._most_of_client = most_of_client
        self.most_newcomers = max(_LEAST_NEWCOMERS, most // 2)
        self._traffic = traffic
        self._newcomers: dict[Guest, str] = {}
        self._proven: dict[Guest, str] = {}
        self._by_client: Counter[str] = Counter()

    def enter(self, guest: Guest, client: str) -> None:
        """Gives a new connection from an IP address a place among the newcomers."""
        if len(self._newcomers) >= self.most_newcomers:
            self._turn_out(next(iter(self._newcomers)), "unproven-connections")
        self._newcomers[guest] = client
        self._count()

    def prove(self, guest: Guest) -> bool:
        """Counts a connection as proven. False if all places are taken by connections that aren't idle."""
        client = self._newcomers.get(guest)
        if client is None:
            return guest in self._proven
        if self._by_client[client] >= self._most_of_client:
            if not self._make_room("connections-of-client", client):
                return False
        elif len(self._proven) >= self._most and not self._make_room("connections", None):
            return False
        del self._newcomers[guest]
        self._proven[guest] = client
        self._by_client[client] += 1
        return True

    def leave(self, guest: Guest) -> None:
        """Frees the place of a connection that has ended."""
        self._newcomers.pop(guest, None)
        client = self._proven.pop(guest, None)
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]
        self._count()

    def _make_room(self, reason: str, client: str | None) -> bool:
        """Closes the proven connection that has been idle longest, of one IP address or of all."""
        resting = [
            (since_s, guest)
            for guest, of_client in self._proven.items()
            if client in {None, of_client} and (since_s := guest.resting_since_s) is not None
        ]
        for _, guest in sorted(resting, key=lambda found: found[0])[:_LOOKS]:
            if not guest.is_sent_to:
                self._turn_out(guest, reason)
                return True
        self._traffic.refuse(reason)
        return False

    def _turn_out(self, guest: Guest, reason: str) -> None:
        self._traffic.refuse(reason)
        self.leave(guest)
        guest.abort()

    def _count(self) -> None:
        self._traffic.connections = len(self._proven) + len(self._newcomers)


class Connections:
    """All connections of a server. Belongs to one event loop.

    `hot` answers in front of the application.
    """

    def __init__(
        self, app: Any, limits: ConnectionLimits, hot: HotAnswer | None, traffic: Traffic | None = None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.hot = hot or (lambda _: None)
        self.open: set[Connection] = set()
        self.traffic = traffic or Traffic()
        self.places = Places(limits.max_connections, limits.max_client_connections, self.traffic)
        self._closed = asyncio.Event()
        self._config = Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            # A line for each malformed request would let anybody fill the disk: they are counted.
            log_level=logging.ERROR,
            access_log=False,
            proxy_headers=False,
            # The sweep ends idle connections: the parser's timer doesn't see hot requests.
            timeout_keep_alive=86_400,
        )
        self._config.load()
        self._state = ServerState()

    def __call__(self) -> Connection:
        """A new connection's protocol."""
        return Connection(self)

    def opened(self, connection: Connection, client: str) -> None:
        """Adds a new connection from an IP address."""
        self.open.add(connection)
        self.places.enter(connection, client)

    def closed(self, connection: Connection) -> None:
        """Removes a connection that has ended."""
        self.open.discard(connection)
        self.places.leave(connection)
        self._closed.set()

    def parser(self, proven: Callable[[], object]) -> AppProtocol:
        """A parser that runs the application, which calls `proven` once it has read a whole request."""
        return AppProtocol(self._config, self._state, {PROVEN: proven}, self.traffic, self.loop)

    def sweep(self) -> None:
        """Ends connections that take too long. To be called every second or so."""
        now_s = self.loop.time()
        for connection in list(self.open):
            connection.end_if_late(now_s)

    async def drain(self, timeout_s: float) -> None:
        """Lets requests under way finish for at most `timeout_s`, then closes everything.

        Those that have arrived are under way, even if the loop has not read them yet.
        """
        for _ in range(_TURNS_TO_READ):
            await asyncio.sleep(0)
        for connection in list(self.open):
            connection.finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.open:
                    self._closed.clear()
                    await self._closed.wait()
        for connection in list(self.open):
            connection.abort()


class AppProtocol(HttpToolsProtocol):
    """uvicorn's parser, which also tracks its position within a request."""

    in_head = False
    in_message = False

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        traffic: Traffic,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self._traffic = traffic

    def send_400_response(self, msg: str) -> None:
        """Refuses a malformed request."""
        self._traffic.refuse("malformed")
        super().send_400_response(msg)

    @property
    def idle(self) -> bool:
        """Whether no request is partly read or unanswered."""
        cycle: Any = self.cycle
        return not self.in_message and not self.pipeline and (cycle is None or cycle.response_complete)

    def on_message_begin(self) -> None:
        """The request's first byte has arrived."""
        self.in_head = self.in_message = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self.in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The whole request has arrived."""
        self.in_message = False
        super().on_message_complete()


class Connection(asyncio.Protocol):
    """One connection: answers plain requests for hot paths itself, and hands all others to uvicorn's parser."""

    __slots__ = ("_app", "_head", "_head_bytes", "_paused", "_proven", "_server", "_since_s", "_transport")

    def __init__(self, server: Connections) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._app: AppProtocol | None = None
        self._head = b""
        self._head_bytes = 0
        self._paused = False
        self._proven = False
        self._since_s = server.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Adds the connection to its server."""
        self._transport = transport  # type: ignore[assignment]
        self._server.opened(self, (transport.get_extra_info("peername") or ("",))[0])

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection from its server."""
        self._server.closed(self)
        if self._app is not None:
            self._app.connection_lost(exc)

    def eof_received(self) -> bool:
        """The peer sends no more. A request under way is still answered if it is complete."""
        return self._app is not None and not self._app.idle and not self._app.in_message

    def data_received(self, data: bytes) -> None:
        """Takes bytes of requests."""
        app = self._app
        if app is not None and not app.idle:
            self._feed(app, data)
            return
        server = self._server
        if self._head:
            data = self._head + data
        else:
            response = server.hot(data)
            if response is not None:
                if self._proven or self._prove():
                    self._since_s = server.loop.time()
                    self._transport.write(response)
                return
        self._to_app(data)

    def pause_writing(self) -> None:
        """The peer reads too slowly: nothing more is read from it."""
        self._paused = True
        self._since_s = self._server.loop.time()
        self._transport.pause_reading()
        if self._app is not None:
            self._app.pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._paused = False
        self._since_s = self._server.loop.time()
        self._transport.resume_reading()
        if self._app is not None:
            self._app.resume_writing()

    def end_if_late(self, now_s: float) -> None:
        """Ends the connection if the peer is too slow, or idle for too long."""
        limits = self._server.limits
        if self._is_at_head_or_body or self._paused:
            if now_s - self._since_s > limits.request_s:
                self._server.traffic.refuse("too-slow")
                self._transport.abort()
        elif (self._app is None or self._app.idle) and now_s - self._since_s > limits.idle_s and not self.is_sent_to:
            self._transport.abort()

    @property
    def resting_since_s(self) -> float | None:
        """Since when it has been idle; None while a request is under way."""
        at_request = self._is_at_head_or_body or self._paused or (self._app is not None and not self._app.idle)
        return None if at_request else self._since_s

    @property
    def is_sent_to(self) -> bool:
        """Whether bytes have arrived that the loop has not read yet: to close it now would reset a request."""
        found = self._transport.get_extra_info("socket")
        if found is None or found.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(found.fileno(), select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(0))

    @property
    def _is_at_head_or_body(self) -> bool:
        """Whether a request has been read only partly."""
        return bool(self._head) or (self._app is not None and self._app.in_message)

    def finish(self) -> None:
        """Closes the connection once all requests are answered."""
        if self._app is None or self._app.idle:
            self._transport.close()
        else:
            self._app.shutdown()

    def abort(self) -> None:
        """Closes the connection now."""
        self._transport.abort()

    def _prove(self) -> bool:
        """Counts the connection as proven. False if there is no place for it: then it is closed."""
        if not self._proven:
            self._proven = self._server.places.prove(self)
            if not self._proven:
                self._transport.abort()
        return self._proven

    def _to_app(self, data: bytes) -> None:
        """Hands over a request once its head is complete: an endless head is cut off here."""
        if not self._head:
            data = data.lstrip(_LINE_ENDS)  # blank lines in front of a request don't count
            if not data:
                return
            self._since_s = self._server.loop.time()
        if _END not in data:
            self._head = data
            if len(data) > self._server.limits.max_head_bytes:
                self._refuse_head()
            return
        self._head = b""
        if data.index(_END) > self._server.limits.max_head_bytes:
            self._refuse_head()
            return
        if self._app is None:
            self._app = self._server.parser(self._prove)
            self._app.connection_made(self._transport)
        self._feed(self._app, data)

    def _feed(self, app: AppProtocol, data: bytes) -> None:
        was_at_rest = not app.in_message
        app.data_received(data)
        if was_at_rest or not app.in_message:
            # A request's time counts from its first byte, an answer's time from the last request.
            self._since_s = self._server.loop.time()
        self._head_bytes = self._head_bytes + len(data) if app.in_head else 0
        if self._head_bytes > self._server.limits.max_head_bytes + len(data):
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._server.traffic.refuse("headers-too-large")
        self._transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        self._transport.close()
