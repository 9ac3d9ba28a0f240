"""Ports that are free, taken, or set twice."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator

import pytest

from storekeeper.ops.errors import PortTakenError
from storekeeper.ops.ports import check_ports, is_free, listener


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
