"""A peer that accepts connections, says nothing, and sees their end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


class SilentPeer:
    """Its queue of connections."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"

    def sees_the_end(self) -> None:
        """Waits until the other side has closed the first connection in the queue."""
        connection, _ = self._listening.accept()
        with connection:
            connection.settimeout(30)
            while connection.recv(65_536):
                pass


@contextmanager
def silent_peer() -> Iterator[SilentPeer]:
    """A peer that listens until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        yield SilentPeer(listening)
