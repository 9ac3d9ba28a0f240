"""What a platform needs of its machine: room on the disk, and ports that nobody else has.

It is checked before a start. An error names a disk that runs full later.
"""

from __future__ import annotations

import errno
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

from storekeeper.ops.errors import DiskSpaceError, PortTakenError

_MIB = 1024 * 1024

ROOM_MB = 2048
"""What a platform needs for its first hours: topics, tables and logs."""
LEAST_MB = 64
"""With less than this the broker, Spark and SQLite fail, each with another error: the disk counts as full."""


def free_mb(folder: Path) -> int:
    """Free MiB on the file system of `folder` or, while that doesn't exist, of its nearest existing parent."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free // _MIB


def check_room(folder: Path) -> None:
    """Checks that what the platform would start has room.

    Raises:
        DiskSpaceError: less than `ROOM_MB` are free.
    """
    free = free_mb(folder)
    if free < ROOM_MB:
        raise DiskSpaceError(
            f"Only {free} MB of disk are free under {folder}: free at least {ROOM_MB} MB, "
            "or point STOREKEEPER_RUN_DIR to another disk."
        )


def little_room(folder: Path) -> str:
    """What to add to the word that all is well: that nothing could be started again, or nothing if it could."""
    free = free_mb(folder)
    return f", but only {free} MB of disk are free under {folder}" if free < ROOM_MB else ""


def check_not_full(folder: Path) -> None:
    """Checks, during a wait, that a full disk isn't the cause.

    Raises:
        DiskSpaceError: less than `LEAST_MB` are free.
    """
    if free_mb(folder) < LEAST_MB:
        raise full_disk(folder)


def is_full(error: OSError) -> bool:
    """Whether an error of the operating system means that the disk or the quota is used up."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def full_disk(folder: Path) -> DiskSpaceError:
    """The error to show for a disk that ran full under `folder`."""
    return DiskSpaceError(
        f"The disk under {folder} is full: free some space and run the command again; what was written is kept."
    )


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
