"""Whether a task has seen all of its input.

A Python worker reads its rows as an Arrow stream over a socket. A JVM that is killed between two messages of the stream
leaves what looks like its proper end, and a task that took it for one would commit half of its rows for good. The
socket knows better: after a proper end it is still open.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from state.errors import StateError

_JVM: list[socket.socket] = []


class TruncatedInputError(StateError):
    """The JVM went away before it had sent all rows. Nothing was committed; the batch is run again."""


def remembering(worker: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Spark's entry of a Python worker, made to remember the socket that its input comes from."""

    def remembered(connection: socket.socket, authenticated: bool) -> int:
        _JVM[:] = [connection]
        return worker(connection, authenticated)

    return remembered


def check_input_complete() -> None:
    """Returns if the JVM is still there after the end of the rows, or if this is no worker of Spark's.

    Raises:
        TruncatedInputError: it is gone, so the end may be none.
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
