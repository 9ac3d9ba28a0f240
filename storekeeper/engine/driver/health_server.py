"""The health of a process of apps, for a supervisor that asks by HTTP. Loopback only: there is no authentication.

`/livez` answers 200 while the process answers. `/readyz` answers 200 if each app has a fresh heartbeat of this process
that says that it runs, else 503 with the reason.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from storekeeper.clock import Clock
from storekeeper.engine.runtime.heartbeat import heartbeat_problem, read_heartbeat
from storekeeper.errors import ConfigurationError

_LOOPBACK = "127.0.0.1"
_SILENT_S = 10


@contextmanager
def health_served(port: int | None, heartbeats: Sequence[Path], clock: Clock) -> Iterator[int | None]:
    """Serves the health of this process while the block runs. Port 0 takes a free one, None serves nothing.

    Yields:
        The port.

    Raises:
        ConfigurationError: the port is taken.
    """
    if port is None:
        yield None
        return
    handler = partial(_Handler, lambda: problem_of(heartbeats, clock.now_ms()))
    try:
        server = ThreadingHTTPServer((_LOOPBACK, port), handler)
    except OSError as error:
        msg = f"can't listen on {_LOOPBACK}:{port} ({error.strerror}): name another port with --health-port"
        raise ConfigurationError(msg) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem_of(heartbeats: Sequence[Path], now_ms: int) -> str | None:
    """Why this process isn't ready, according to its apps' heartbeats; None if it is."""
    for path in heartbeats:
        problem = heartbeat_problem(read_heartbeat(path), os.getpid(), now_ms)
        if problem is not None:
            return f"{path.stem}: {problem}"
    return None


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection. `problem` says why the process isn't ready."""

    timeout = _SILENT_S

    def __init__(self, problem: Callable[[], str | None], *connection: Any) -> None:
        self._problem = problem
        super().__init__(*connection)  # it answers in there

    def do_GET(self) -> None:
        """Answers `/livez` and `/readyz`."""
        if self.path == "/livez":
            self._answer(HTTPStatus.OK, "alive")
        elif self.path == "/readyz":
            problem = self._problem()
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK, problem or "ready")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "unknown path: use /livez or /readyz")

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the parent's name)
        """Probes are not logged."""
