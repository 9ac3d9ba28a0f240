"""Whether the ports of a platform are free, and who has them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping

import psutil

from storekeeper.ops.errors import PortTakenError


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose last connections are still in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return False
            raise
    return True


def listener(port: int) -> str | None:
    """Who listens on `port`, as `name (process id)`, or None if that is unknown."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr
        if listens and tuple(connection.laddr)[1:2] == (port,) and connection.pid:
            try:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.Error:
                return f"process {connection.pid}"
    return None


def check_ports(ports: Mapping[str, int]) -> None:
    """Checks that every port is free and used once. `ports` are by the name of the setting that moves them.

    Raises:
        PortTakenError: naming each port that isn't, its user if known, and the setting.
    """
    seen: dict[int, str] = {}
    wrong: list[str] = []
    for setting, port in ports.items():
        if port in seen:
            wrong.append(f"Port {port} is set twice, by {seen[port]} and {setting}: set one of them to another port.")
        elif not is_free(port):
            user = listener(port) or "another process"
            wrong.append(f"Port {port} is taken by {user}: stop it, or set {setting.split()[0]} to a free port.")
        seen.setdefault(port, setting)
    if wrong:
        raise PortTakenError(" ".join(wrong))
