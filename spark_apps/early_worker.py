"""The interpreter that Spark starts its Python processes with: `storekeeper-python`.

Spark waits ten seconds for a process that it starts by itself, as it does for the first batch of every processor. That
time can't be configured. PySpark's own modules load everything before they connect, which takes longer on a busy
machine. This one connects first, which takes a fifth of the work. Python does the rest.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from io import IOBase
from pathlib import Path

_LENGTH = struct.Struct("!i")
_WELCOMED = _LENGTH.pack(len(b"ok")) + b"ok"
_AUTH_TIMEOUT_S = 15.0  # PySpark's own, in `pyspark.util.local_connect_and_auth`


def main() -> None:
    """Runs `storekeeper-python -m MODULE` as Python does, for a module that talks to Spark; else becomes Python."""
    # Written by Spark for this process: not our settings.
    port = os.environ.get("PYTHON_WORKER_FACTORY_PORT")  # noqa: TID251
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")  # noqa: TID251
    if port is None or secret is None or sys.argv[1:2] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606 (it is this very interpreter)
    connection = connect(int(port), secret)
    module, sys.argv = sys.argv[2], sys.argv[2:]
    sys.path[0] = str(Path.cwd())  # as for `python -m`
    _hand_over(connection)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def connect(port: int, secret: str) -> socket.socket:
    """Connects to the JVM that listens on a port of this machine, and authenticates as the process it started.

    The protocol is that of Spark's `SocketAuthHelper`.

    Raises:
        ConnectionError: nobody listens there, or it isn't that JVM.
        TimeoutError: it doesn't answer.
    """
    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"  # noqa: TID251
    connection = socket.create_connection((host, port), _AUTH_TIMEOUT_S)
    shown = secret.encode()
    connection.sendall(_LENGTH.pack(len(shown)) + shown)
    with connection.makefile("rb") as answer:  # which takes no more than it should: Spark asks for the pid next
        if answer.read(len(_WELCOMED)) != _WELCOMED:
            connection.close()
            msg = f"what listens on port {port} isn't the JVM that started this process"
            raise ConnectionError(msg)
    connection.settimeout(None)  # a busy JVM may take its time
    return connection


def _hand_over(connection: socket.socket) -> None:
    import pyspark.worker_util  # noqa: PLC0415 (loading it is what takes the time)

    def connected(*_: object) -> tuple[IOBase, socket.socket]:
        return connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))), connection  # noqa: TID251

    vars(pyspark.worker_util)["local_connect_and_auth"] = connected
