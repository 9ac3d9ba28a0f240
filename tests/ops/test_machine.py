"""Room on the disk; ports that are free, taken, or set twice."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from storekeeper.ops import machine
from storekeeper.ops.errors import DiskSpaceError, PortTakenError
from storekeeper.ops.machine import check_not_full, check_ports, check_room, free_mb, is_free, is_full, listener


def test_a_folder_that_is_not_there_yet_counts_as_its_parent(tmp_path: Path) -> None:
    assert abs(free_mb(tmp_path / "a" / "b") - free_mb(tmp_path)) < 100


def test_too_little_room_names_the_folder_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ROOM_MB", 0)
    check_room(tmp_path)
    monkeypatch.setattr(machine, "ROOM_MB", 10**9)
    with pytest.raises(DiskSpaceError, match=rf"under {tmp_path}: free at least 1000000000 MB, or point STOREKEEPER"):
        check_room(tmp_path)


@pytest.mark.parametrize(("free_bytes", "full"), [(0, True), (63 * 1024**2, True), (64 * 1024**2, False)])
def test_a_disk_is_full_before_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, full: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    if not full:
        check_not_full(tmp_path)
        return
    with pytest.raises(DiskSpaceError, match="is full: free some space"):
        check_not_full(tmp_path)


def test_only_a_lack_of_room_is_one() -> None:
    assert is_full(OSError(errno.ENOSPC, ""))
    assert is_full(OSError(errno.EDQUOT, ""))
    assert not is_full(OSError(errno.EACCES, ""))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_taken_port_is_told_with_its_user_and_the_setting(taken: int) -> None:
    with pytest.raises(PortTakenError) as caught:
        check_ports({"`airflow_port`": taken})
    assert re.fullmatch(
        rf"Port {taken} is taken by .*\(process {os.getpid()}\): stop it, or set `airflow_port` to a "
        r"free port\.",
        str(caught.value),
    )


def test_all_ports_that_are_taken_are_told_at_once(taken: int) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        other = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"Port {taken} is taken by .*Port {other} is taken by "):
            check_ports({"`airflow_port`": taken, "STOREKEEPER_NODE_PORT": other})


def test_a_free_port_passes(taken: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    assert is_free(free)
    check_ports({"`kafka_port`": free})
    assert listener(free) is None
    assert not is_free(taken)


def test_a_port_that_only_waits_for_old_connections_is_free() -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # the server's side closes first and stays in TIME_WAIT
            client.recv(1)
    assert is_free(port)


def test_a_port_set_twice_is_told() -> None:
    with pytest.raises(PortTakenError, match="set twice, by `kafka_port` and `airflow_port`"):
        check_ports({"`kafka_port`": 29871, "`airflow_port`": 29871})
