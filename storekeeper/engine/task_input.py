"""Checks whether a task has read all of its input.

A Python worker reads its rows, or its parcels, from a socket. If the JVM is killed between two messages, the input
seems to end properly, and the task would commit only a part of it. The socket shows the difference: after a proper end
it is still open.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from storekeeper.errors import StateError

_JVM: list[socket.socket] = []


class TruncatedInputError(StateError):
    """The JVM went away before it had sent all rows. Nothing was committed; the batch is run again."""


def remembering(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Wraps the entry point of Spark's Python worker so that it remembers its input socket."""

    def remembered(connection: socket.socket, authenticated: bool) -> int:
        _JVM[:] = [connection]
        return worker(connection, authenticated)

    return remembered


def check_input_complete() -> None:
    """Checks that the JVM is still there after the end of the rows. Does nothing outside a Spark worker.

    Raises:
        TruncatedInputError: the JVM is gone, so rows may be missing.
    """
    for connection in _JVM:
        try:
            gone = not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        if gone:
            raise TruncatedInputError("the JVM of this task is gone: the batch is run again by the next start")
