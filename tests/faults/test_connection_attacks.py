"""Attacks with more connections than a node may have: a caller from the same address gets every answer."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from harness.broker import Broker
from harness.certificates import make_authority
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from harness.tokens import write_callers
from harness.waiting import eventually
from storekeeper.node.security.access import Caller, Role, new_token
from tests.faults.raw_http import RawConnection

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

CONNECTIONS = 600
"""More than one address may have."""
ASKED = 30
PAUSE_S = 0.1
TOPIC = "connection-attacks-changelog"
TOKEN = new_token()
BEARER = f"Authorization: Bearer {TOKEN}".encode()
TARGET = b"/state/keyvalue/rewards/0001"
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
HEAD = b" HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@dataclass
class Attacked:
    """A node behind TLS and one without, both with tokens."""

    plain: NodeProcess
    tls: NodeProcess
    trusting: ssl.SSLContext

    def ask(self, node: NodeProcess) -> int | None:
        """The status of one query on a connection of its own."""
        with RawConnection(node.address) as connection:
            if node is self.tls:
                connection.socket = self.trusting.wrap_socket(connection.socket, server_hostname="127.0.0.1")
            return connection.get(TARGET, BEARER).status


@pytest.fixture(scope="module")
def attacked(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder = tmp_path_factory.mktemp("connections")
    broker.create_topic(TOPIC, config=COMPACTED)
    write(broker, TOPIC, [(b"0001", json.dumps({"points": 1}).encode())])
    authority = make_authority(folder / "ca")
    certificate, key = authority.issue("node")
    tokens = folder / "tokens"
    write_callers(tokens, {TOKEN: Caller("all", frozenset({Role.READER}))})
    served = f"rewards={TOPIC}"
    (plain,) = make_nodes(broker, folder / "plain", served, "a", replicas=0, cluster="plain", tokens_file=tokens)
    (tls,) = make_nodes(
        broker,
        folder / "tls",
        served,
        "a",
        replicas=0,
        cluster="tls",
        tokens_file=tokens,
        tls_certificate=certificate,
        tls_key=key,
        tls_peer_ca=authority.certificate,
    )
    found = Attacked(plain, tls, ssl.create_default_context(cafile=str(authority.certificate)))

    def ready(node: NodeProcess) -> bool:
        try:
            return found.ask(node) == 200
        except OSError:
            return False

    with started([plain, tls]):
        for node in (plain, tls):
            eventually(lambda node=node: ready(node), 60, "the node answers")  # type: ignore[misc]
        yield found


@contextlib.contextmanager
def flooded(node: NodeProcess, opening: bytes, drip: bytes) -> Iterator[None]:
    """While the block runs, hundreds of connections say `opening`, and `drip` again and again; new ones follow."""
    parts = urlsplit(node.address)
    done, flooding = threading.Event(), threading.Event()

    def connected() -> socket.socket:
        connection = socket.create_connection((parts.hostname or "", parts.port or 0))
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(opening)
        return connection

    def attack() -> None:
        open_now = [connected() for _ in range(CONNECTIONS)]
        flooding.set()
        while not done.wait(PAUSE_S):
            for at, connection in enumerate(open_now):
                try:
                    connection.send(drip)
                    ended = connection.recv(4096) == b""
                except BlockingIOError:
                    ended = False
                except OSError:
                    ended = True
                if ended:
                    connection.close()
                    open_now[at] = connected()
        for connection in open_now:
            connection.close()

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        assert flooding.wait(60)
        yield
    finally:
        done.set()
        attacker.join()


@pytest.mark.parametrize(
    ("opening", "drip"),
    [
        pytest.param(b"", b"", id="silent"),
        pytest.param(b"GET /state/stores" + HEAD, b"X-Slow: 1\r\n", id="slow headers"),
        pytest.param(b"", b"\r\n\r\n", id="blank lines"),
        pytest.param(b"GET /livez" + HEAD + b"\r\n", b"", id="kept alive by strangers"),
        pytest.param(b"POST /x" + HEAD + b"Content-Length: 1000\r\n\r\n", b"x", id="slow bodies"),
    ],
)
def test_a_caller_gets_every_answer(attacked: Attacked, opening: bytes, drip: bytes) -> None:
    with flooded(attacked.plain, opening, drip):
        assert {attacked.ask(attacked.plain) for _ in range(ASKED)} == {200}


@pytest.mark.parametrize("opening", [b"", CLIENT_HELLO], ids=["silent", "half a handshake"])
def test_a_caller_gets_every_answer_beside_handshakes_that_never_end(attacked: Attacked, opening: bytes) -> None:
    with flooded(attacked.tls, opening, b""):
        assert {attacked.ask(attacked.tls) for _ in range(ASKED)} == {200}


def test_connections_that_rest_after_a_request_give_way(attacked: Attacked) -> None:
    with contextlib.ExitStack() as resting:
        for _ in range(CONNECTIONS):
            connection = resting.enter_context(RawConnection(attacked.plain.address))
            assert connection.get(TARGET, BEARER).status == 200
        assert {attacked.ask(attacked.plain) for _ in range(ASKED)} == {200}
