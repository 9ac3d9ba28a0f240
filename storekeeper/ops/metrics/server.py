"""The HTTP server of the metrics: plain and open on loopback; elsewhere with TLS and tokens, as for nodes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from storekeeper.clock import Clock
from storekeeper.loopback import is_loopback
from storekeeper.node.security.access import LIVE_PATH, Authenticator, UnauthenticatedError
from storekeeper.node.security.exposure import protection
from storekeeper.node.settings import load_node_settings

_SILENT_S = 10
_TEXT = [("Content-Type", "text/plain; charset=utf-8")]

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def serve_metrics(registry: CollectorRegistry, host: str, port: int, clock: Clock) -> None:
    """Serves until TERM or INT; raises what `metrics_server` raises."""
    server = metrics_server(registry, host, port, clock)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    ended.wait()
    server.shutdown()
    thread.join()
    server.server_close()


def metrics_server(registry: CollectorRegistry, host: str, port: int, clock: Clock) -> WSGIServer:
    """A server that listens already; `serve_forever` answers each connection in a thread of its own.

    Beyond loopback it takes certificate and tokens from the nodes' settings.

    Raises:
        ConfigurationError: it would listen beyond loopback without TLS or without authentication.
    """
    if is_loopback(host):
        return make_server(host, port, make_wsgi_app(registry), _Server, _Handler)
    settings = load_node_settings({"listen_host": host})
    tls, authenticator = protection(settings, clock)
    server = make_server(host, port, guarded(make_wsgi_app(registry), authenticator), _Server, _Handler)
    if tls is not None:
        # The handshake runs in the connection's own thread, so that a stalled client doesn't block the others.
        server.socket = tls.server_context().wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


def guarded(metrics: Wsgi, authenticator: Authenticator) -> Wsgi:
    """`metrics` for known callers only, and `/livez` for everybody."""
    lock = threading.Lock()  # a token book isn't thread-safe

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].encode() == LIVE_PATH:
            start_response("200 OK", _TEXT)
            return [b"alive\n"]
        authorization = environ.get("HTTP_AUTHORIZATION")
        try:
            with lock:
                authenticator.caller(None if authorization is None else authorization.encode("latin-1"))
        except UnauthenticatedError as error:
            start_response("401 Unauthorized", [*_TEXT, ("WWW-Authenticate", "Bearer")])
            return [f"{error}\n".encode()]
        return metrics(environ, start_response)

    return app


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that ends early is no news."""


class _Handler(WSGIRequestHandler):
    timeout = _SILENT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the parent's name)
        """Scrapes are not logged."""
