"""A network between nodes that can be cut, one way or both, and slowed: a TCP proxy in front of one node."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field

from tests.broker import free_ports

_CHUNK = 65_536
_POLL_S = 0.05


@dataclass(slots=True)
class Proxy:
    """Carries bytes between its port and `target`.

    Attributes:
        target: port of the node on 127.0.0.1.
        port: where others reach the node.
        drop_requests: bytes towards the node get lost, as if a cable were cut one way: nothing is closed or refused.
        drop_answers: the same for bytes from the node.
        delay_s: so long each piece of bytes from the node takes.
    """

    target: int
    port: int = field(default_factory=lambda: free_ports(1)[0])
    drop_requests: bool = False
    drop_answers: bool = False
    delay_s: float = 0.0
    _listener: socket.socket | None = None
    _threads: list[threading.Thread] = field(default_factory=list)
    _closed: bool = False

    @property
    def address(self) -> str:
        """The base address that goes through the proxy."""
        return f"http://127.0.0.1:{self.port}"

    def heal(self) -> None:
        """Lets everything through again, at once."""
        self.drop_requests = self.drop_answers = False
        self.delay_s = 0.0

    def start(self) -> None:
        """Begins to accept."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        self._listener.settimeout(_POLL_S)
        self._spawn(self._accept)

    def close(self) -> None:
        """Ends every connection."""
        self._closed = True
        for thread in self._threads:
            thread.join(timeout=5)
        if self._listener is not None:
            self._listener.close()

    def _spawn(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads = [other for other in self._threads if other.is_alive()] + [thread]
        thread.start()

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            try:
                node = socket.create_connection(("127.0.0.1", self.target), timeout=1)
            except OSError:
                client.close()
                continue
            for end in (client, node):
                end.settimeout(_POLL_S)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._spawn(self._carry, client, node, True)
            self._spawn(self._carry, node, client, False)

    def _carry(self, source: socket.socket, sink: socket.socket, towards_node: bool) -> None:
        with contextlib.suppress(OSError):
            while not self._closed:
                try:
                    data = source.recv(_CHUNK)
                except TimeoutError:
                    continue
                if not data:
                    break
                if self.drop_requests if towards_node else self.drop_answers:
                    continue
                if self.delay_s and not towards_node:
                    time.sleep(self.delay_s)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
