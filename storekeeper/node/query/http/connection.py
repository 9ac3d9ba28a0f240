"""HTTP connections: the most frequent request is answered as it arrives, all others go to the app.

A plain request for a hot path, whole in one segment, is answered without a task and without a parser of every header.
Everything else goes to uvicorn's parser, which runs the ASGI application, unchanged but for offers of another protocol:
they are left out. The limits here hold for both: how long a request's head may be, and how long a peer may take to
send a request or to read an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from storekeeper.node.query.http.limiter import ConnectionLimiter, LimitedConnection
from storekeeper.node.query.protection.request_counts import Traffic

_TURNS_TO_READ = 3
"""The loop reads what has arrived in one turn. It may be in the middle of one."""
_END = b"\r\n\r\n"
_LINE_ENDS = b"\r\n"
_MOST_PIPELINED = 64
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*", re.IGNORECASE)
"""The header, with the lines that continue it."""
HotAnswer = Callable[[bytes], bytes | None]
"""The whole response to a whole request that can be answered at once; None leaves it to the application."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a connection. A head may have what the guard allows, and some room. `request_s` is from a request's
    first byte to its last, and for an answer to be taken; `idle_s` is between requests.
    """

    max_connections: int = 1024
    max_client_connections: int = 512
    max_head_bytes: int = 52 << 10
    request_s: float = 10.0
    idle_s: float = 60.0


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
        self.limiter = ConnectionLimiter(limits.max_connections, limits.max_client_connections, self.traffic)
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

    def __call__(self, pending: LimitedConnection | None = None) -> Connection:
        """A new connection's protocol. It counts in place of `pending`."""
        return Connection(self, pending)

    def opened(self, connection: Connection, client: str, pending: LimitedConnection | None) -> None:
        """Adds a new connection from an IP address, or closes it if there is no room."""
        self.open.add(connection)
        if pending is not None:
            self.limiter.remove(pending)
        if not self.limiter.add(connection, client):
            connection.abort()

    def closed(self, connection: Connection) -> None:
        """Removes a connection that has ended."""
        self.open.discard(connection)
        self.limiter.remove(connection)
        self._closed.set()

    def parser(self) -> AppProtocol:
        """A parser that runs the application."""
        return AppProtocol(self._config, self._state, {}, self.traffic, self.loop)

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


def has_unread_bytes(sock: Any) -> bool:
    """Whether bytes have arrived at a socket that nobody has read yet: to close it now would reset a request."""
    if sock is None or sock.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))


class AppProtocol(HttpToolsProtocol):
    """uvicorn's parser, which also tracks its position within a request."""

    in_head = False
    in_message = False
    in_trailers = False
    """Or in front of a chunk's first byte: only what follows tells."""

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

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. Trailers are left out: the guard has looked at the headers before they come."""
        if self.in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self.in_head = False
        if self.parser.should_upgrade():
            # What follows would be read as the next request. Only a request at rest is cleared of its offer.
            raise ValueError("a pipelined request offers another protocol")
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """A chunk begins, or the trailers do."""
        self.in_trailers = True

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self.in_trailers = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request has arrived."""
        self.in_message = self.in_trailers = False
        super().on_message_complete()


class Connection(asyncio.Protocol):
    """One connection: answers plain requests for hot paths itself, and hands all others to uvicorn's parser."""

    __slots__ = (
        "_app",
        "_head",
        "_head_bytes",
        "_paused",
        "_pending",
        "_rests",
        "_server",
        "_since_s",
        "_transport",
    )

    def __init__(self, server: Connections, pending: LimitedConnection | None = None) -> None:
        self._server = server
        self._pending = pending
        self._transport: asyncio.Transport
        self._app: AppProtocol | None = None
        self._head = b""
        self._head_bytes = 0
        self._paused = False
        self._rests = True
        self._since_s = server.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Adds the connection to its server."""
        self._transport = transport  # type: ignore[assignment]
        self._server.opened(self, (transport.get_extra_info("peername") or ("",))[0], self._pending)
        self._pending = None

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
                self._rests = True
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
        elif (
            (self._app is None or self._app.idle)
            and now_s - self._since_s > limits.idle_s
            and not self._has_unread_bytes
        ):
            self._transport.abort()

    @property
    def idle_since_s(self) -> float | None:
        """Since when it has been idle or has sent a part of a request; None while a request is answered."""
        app = self._app
        answers = self._paused or (app is not None and not app.idle and not app.in_message)
        return None if answers else self._since_s

    @property
    def has_unread_request(self) -> bool:
        """Whether the next request may have arrived unread, the first one too.

        Who has last sent blank lines or a part of a request is not waited for.
        """
        return self._rests and not self._is_at_head_or_body and self._has_unread_bytes

    @property
    def _has_unread_bytes(self) -> bool:
        return has_unread_bytes(self._transport.get_extra_info("socket"))

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

    def _to_app(self, data: bytes) -> None:
        """Hands over a request once its head is complete: an endless head is cut off here."""
        if not self._head:
            data = data.lstrip(_LINE_ENDS)  # blank lines in front of a request don't count
            self._rests = bool(data)
            if not data:
                return
            self._since_s = self._server.loop.time()
        if _END not in data:
            self._head = data
            if len(data) > self._server.limits.max_head_bytes:
                self._refuse_head()
            return
        self._head = b""
        head_end = data.index(_END)
        if head_end > self._server.limits.max_head_bytes:
            self._refuse_head()
            return
        # The parser would skip the body of a request that offers another protocol, and read it as the next request.
        data = _UPGRADE.sub(b"", data[:head_end]) + data[head_end:]
        if self._app is None:
            self._app = self._server.parser()
            self._app.connection_made(self._transport)
        self._feed(self._app, data)

    def _feed(self, app: AppProtocol, data: bytes) -> None:
        was_at_rest = not app.in_message
        app.data_received(data)
        if len(app.pipeline) > _MOST_PIPELINED:
            # uvicorn reads on with each answer, and keeps all that it has read.
            self._server.traffic.refuse("too-many-pipelined")
            self._transport.abort()
            return
        if was_at_rest or not app.in_message:
            # A request's time counts from its first byte, an answer's time from the last request.
            self._since_s = self._server.loop.time()
        self._head_bytes = self._head_bytes + len(data) if app.in_head or app.in_trailers else 0
        if self._head_bytes > self._server.limits.max_head_bytes + len(data):
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._server.traffic.refuse("headers-too-large")
        self._transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        self._transport.close()
