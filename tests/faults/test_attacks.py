"""Attacks on real nodes: refused with 4xx, in bounded memory, while a client that behaves notices nothing."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil
import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from harness.waiting import eventually
from storekeeper.clock import SystemClock
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.hop import ANONYMOUS, HopSigner
from storekeeper.node.security.no_tls import NO_TLS
from tests.faults.attack_strings import BAD_CURSORS, TRAVERSALS
from tests.faults.raw_http import RawAnswer, RawConnection
from tests.refused_node import refused_here

pytestmark = pytest.mark.broker

ROWS = {f"{number:04d}": {"points": number} for number in range(500)}
MAY_GROW_BYTES = 96 << 20
MIB = 1 << 20
REST_S = 1.0
"""No node closes a connection that a client lets rest for less."""
Nodes = Sequence[NodeProcess]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attacked") / "run"


@pytest.fixture(scope="module")
def nodes(broker: Broker, run_dir: Path) -> Iterator[Nodes]:
    """Two nodes that share the partitions: half of what is asked needs a request between them."""
    topic = "attacked-changelog"
    broker.create_topic(topic, config=COMPACTED)
    write(broker, topic, [(key.encode(), json.dumps(value).encode()) for key, value in ROWS.items()])
    pair = make_nodes(
        broker,
        run_dir,
        f"rewards={topic}",
        replicas=0,
        max_scans=4,
        constants={
            "storekeeper.node.query.http.connection:ConnectionLimits.request_s": REST_S + 1,
            "storekeeper.node.query.protection.guard:GuardLimits.body_timeout_s": 1.0,
            "storekeeper.node.query.http.connection:ConnectionLimits.idle_s": 2.0,
            "storekeeper.node.query.forwarding:FORWARD_TIMEOUT_MS": 10_000,  # for a small machine under attack
        },
    )
    with started(pair):
        for node in pair:
            node.wait_ready()
        yield pair


@dataclass
class BehavingClient:
    """Asks nodes in turns, and once more where a kept connection rested for so long that a node may have closed it."""

    http: httpx2.Client
    _began_s: dict[str, float] = field(default_factory=dict)

    def get(self, node: NodeProcess, path: str) -> httpx2.Response:
        """A node's answer."""
        began_s = time.monotonic()
        before_s, self._began_s[node.name] = self._began_s.get(node.name, began_s), began_s
        try:
            return self.http.get(node.address + path)
        except httpx2.RemoteProtocolError:
            if time.monotonic() - before_s < REST_S:
                raise
            return self.http.get(node.address + path)


@contextlib.contextmanager
def unharmed(nodes: Nodes) -> Iterator[None]:
    """While the block runs, a client that behaves gets every answer, and the nodes' memory stays bounded."""
    before = [psutil.Process(node.pid).memory_info().rss for node in nodes]
    highest = list(before)
    done, failures, answered = threading.Event(), list[str](), Counter[str]()

    def behave() -> None:
        with httpx2.Client(trust_env=False, verify=NO_TLS, timeout=15) as http:
            asking = BehavingClient(http)
            while not done.wait(0.005) or answered.total() < 10:
                for node in nodes:
                    key = f"{answered.total() % len(ROWS):04d}"
                    try:
                        answer = asking.get(node, f"/state/keyvalue/rewards/{key}")
                    except httpx2.HTTPError as error:
                        failures.append(f"{key}: {error!r}")
                        continue
                    if answer.status_code != 200 or answer.json()["value"] != ROWS[key]:
                        failures.append(f"{key}: {answer.status_code} {answer.text[:200]}")
                    answered[node.name] += 1
                for place, node in enumerate(nodes):
                    highest[place] = max(highest[place], psutil.Process(node.pid).memory_info().rss)

    client = threading.Thread(target=behave)
    client.start()
    try:
        yield
    finally:
        done.set()
        client.join()
    assert failures == []
    assert all(answered[node.name] > 0 for node in nodes)
    grown = [most - least for most, least in zip(highest, before, strict=True)]
    assert max(grown) < MAY_GROW_BYTES, f"resident memory grew by {max(grown) // MIB} MiB"


def files_below(folder: Path) -> dict[str, int]:
    """Every file of a run directory that no node has a reason to write, with its size."""
    own = ("state", "a.log", "b.log")
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in own
    }


def ask_each(node: NodeProcess, targets: Sequence[bytes], *headers: bytes) -> list[RawAnswer]:
    """One GET for each target, on a connection that is opened again when it is closed.

    What got no answer is asked once more where the connection had rested for so long that a node may have closed it.
    """
    found: list[RawAnswer] = []
    connection = RawConnection(node.address)
    for target in targets:
        answer = connection.get(target, *headers)
        if answer.status is None and connection.rested_s >= REST_S:
            connection.close()
            connection = RawConnection(node.address)
            answer = connection.get(target, *headers)
        found.append(answer)
        if answer.status is None or b"connection: close" in answer.head.lower():
            connection.close()
            connection = RawConnection(node.address)
    connection.close()
    return found


@pytest.mark.parametrize(
    "route",
    [
        "/state/keyvalue/{}/0001",
        "/state/keyvalues/{}/all",
        "/state/instances/{}",
        "/state/stores/{}",
        "/state/keyvalue/rewards/nobody-{}",
        "/state/metadata/{}/x",
        "/{}",
    ],
)
def test_no_path_leaves_its_folder(nodes: Nodes, run_dir: Path, route: str) -> None:
    assert len(TRAVERSALS) >= 200
    secret = (run_dir / "secrets" / "cluster.key").read_bytes()
    before = files_below(run_dir)
    with unharmed(nodes):
        answers = ask_each(nodes[0], [route.format(text).encode() for text in TRAVERSALS])
    wrong = [text for text, answer in zip(TRAVERSALS, answers, strict=True) if not 400 <= (answer.status or 0) < 500]
    assert wrong == []
    assert not any(secret in answer.body or b"root:" in answer.body for answer in answers)
    assert files_below(run_dir) == before


@pytest.mark.parametrize("cursor", BAD_CURSORS)
def test_a_bad_cursor_is_a_bad_request(nodes: Nodes, cursor: str) -> None:
    with RawConnection(nodes[0].address) as connection:
        answer = connection.get(f"/state/keyvalues/rewards/all?limit=2&cursor={cursor}".encode())
    assert (answer.status, b"invalid-argument" in answer.body) == (400, True)


def test_a_cursor_of_one_node_is_taken_by_the_other_and_fits_no_other_scan(nodes: Nodes) -> None:
    cursor = nodes[0].get("/state/keyvalues/rewards/all?limit=2").headers["storekeeper-next-cursor"]
    assert [row["key"] for row in nodes[1].get(f"/state/keyvalues/rewards/all?limit=2&cursor={cursor}").json()] == [
        "0002",
        "0003",
    ]
    assert nodes[1].get(f"/state/keyvalues/rewards/range/0000/9999?cursor={cursor}").status_code == 400


@pytest.mark.parametrize(
    "head",
    [
        b"POST /state/keyvalues/rewards HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 104857600\r\n\r\n",
        b"POST /state/keyvalues/rewards HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT /anything HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 104857600\r\n\r\n",
        b"GET /state/stores HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /state/keyvalue/rewards/0001 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 104857600\r\n\r\n",
    ],
)
def test_a_body_of_100_mib_is_refused_without_being_kept(nodes: Nodes, head: bytes) -> None:
    chunk = b"100000\r\n" + b"x" * MIB + b"\r\n" if b"chunked" in head else b"x" * MIB

    def attack(_: int) -> RawAnswer:
        with RawConnection(nodes[0].address) as connection:
            return connection.stream([head, *[chunk] * 100])

    with unharmed(nodes), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(attack, range(4)))
    # A connection that is cut off while the body is still being sent may take the answer with it.
    assert {answer.status for answer in answers} <= {413, None}


@pytest.mark.parametrize(
    ("opening", "drip"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"", b"\r\n\r\n"),
        (b"GET /state/stores HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Slow: 1\r\n"),
        (b"GET /state/stores HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"x"),
        (b"GET /state/stores HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\r\n\r\n"),
        (b"GET /state/keyvalue/rewards/0001 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n\r\n\r\n", b"\r\n\r\n"),
        (
            b"POST /state/keyvalues/rewards HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1\r\nx\r\n",
        ),
        (b"G", b"E"),
        (b"POST /state/keyvalues/rewards HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n", b"x"),
    ],
)
def test_connections_that_trickle_are_cut_off(nodes: Nodes, opening: bytes, drip: bytes) -> None:
    with contextlib.ExitStack() as opened, unharmed(nodes):
        left = [opened.enter_context(contextlib.closing(RawConnection(nodes[0].address))) for _ in range(300)]
        for connection in left:
            connection.socket.sendall(opening)
            connection.socket.setblocking(False)

        def all_closed() -> bool:
            left[:] = [connection for connection in left if not _has_ended(connection, drip)]
            return not left

        eventually(all_closed, 60, "every slow connection is closed")


def _has_ended(connection: RawConnection, drip: bytes) -> bool:
    """Whether the node has closed it, after sending a little more if not. A reset may come between the two calls."""
    try:
        with contextlib.suppress(BlockingIOError):
            if connection.socket.recv(65_536) == b"":
                return True
        with contextlib.suppress(BlockingIOError):
            connection.socket.send(drip)
    except OSError:
        return True
    return False


def test_more_scans_than_allowed_are_refused_and_points_go_on(nodes: Nodes, pytestconfig: pytest.Config) -> None:
    scans = 10_000 if pytestconfig.getoption("--long") else 2_000

    def attack(share: int) -> Counter[int | None]:
        answers = ask_each(nodes[0], [b"/state/keyvalues/rewards/all?limit=500"] * share)
        return Counter(answer.status for answer in answers)

    with unharmed(nodes), ThreadPoolExecutor(64) as pool:
        statuses = sum(pool.map(attack, [scans // 64] * 64), Counter[int | None]())
    assert set(statuses) == {200, 429}
    assert nodes[0].status("/state/keyvalues/rewards/all") == 200


@pytest.mark.parametrize(
    ("request_bytes", "told"),
    [
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {414}),
        (b"GET /state/keyvalue/rewards/" + b"x" * 33_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {414}),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 100 + b"\r\n", {431}),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", {431}),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 2_000_000 + b"\r\n\r\n", {431, None}),
        (b"GET /state/stores HTTP/1.1\r\n\r\n", {400}),
        (b"GET /state/keyvalue/rewards/0001 HTTP/1.1\r\n\r\n", {400}),
        (b"GET /state/keyvalue/rewards/0001 HTTP/1.0\r\n\r\n", {400}),
        (b"GET /state/stores HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", {403}),
        (b"GET /state/keyvalue/rewards/0001 HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", {403}),
        (b"GET /state/stores HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n\r\n", {403}),
        (b"GET /state/stores HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example.org\r\n\r\n", {400, 403}),
        (b"GET /internal/scan/rewards?partitions=0&rows=1&bytes=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {403}),
        (b"GET /%69nternal/scan/rewards?partitions=0&rows=1&bytes=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {403}),
        (b"GET /state/keyvalue/rewards/0001 HTTP/1.1\r\nHost: 127.0.0.1\r\nStorekeeper-Hop: b\r\n\r\n", {403}),
        (b"DELETE /state/keyvalue/rewards/0001 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {405}),
        (b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {404, 405}),
        (b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400, 404, 405, None}),
        (b"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400, 403, 404}),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505, None}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400, None}),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n", {400, None}),
        (
            (
                b"POST /state/keyvalues/rewards HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /internal/x HTTP/1.1\r\n\r\n"
            ),
            {400, 404, 405, 413, 422, None},
        ),
        (
            (
                b"POST /state/keyvalues/rewards HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
                b"Content-Length: 9\r\n\r\n{}"
            ),
            {400, None},
        ),
    ],
)
def test_a_malformed_or_forbidden_request_is_refused(nodes: Nodes, request_bytes: bytes, told: set[int | None]) -> None:
    with unharmed(nodes), RawConnection(nodes[0].address) as connection:
        answer = connection.send(request_bytes)
    assert answer.status in told, answer


def test_a_request_between_nodes_is_taken_once(nodes: Nodes, run_dir: Path) -> None:
    secret = load_cluster_secret(run_dir / "secrets" / "cluster.key")
    target = "/state/keyvalue/rewards/0001"

    def ask(signed_with: bytes, asked: str = target, node: str = "a") -> list[int | None]:
        signed = HopSigner("b", signed_with, SystemClock(), lambda: ANONYMOUS)(node, "GET", target, b"", 1000)
        headers = [f"{name}: {value}".encode() for name, value in signed.items()]
        return [answer.status for answer in ask_each(nodes[0], [asked.encode()] * 2, *headers)]

    first, again = ask(secret)
    assert first in {200, 421}, "held here, or not: but believed"
    assert again == 403, "a replay"
    assert ask(b"x" * 32) == [403, 403], "another cluster's secret"
    assert ask(secret, "/state/keyvalue/rewards/0002") == [403, 403], "another path"
    assert ask(secret, node="c") == [403, 403], "another node was asked"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"listen_host": "0.0.0.0"}, "needs TLS"),  # noqa: S104 - it is refused
        ({"tokens_file": "/nowhere"}, "storekeeper token add"),
        ({"tls_certificate": "/nowhere", "tls_key": "/nowhere"}, "can't be used"),
        ({"peers": "a=http://10.1.2.3:18101"}, "must be https"),
        ({"peer_networks": "0.0.0.0/0"}, "not a rule"),
    ],
)
def test_a_node_that_must_not_listen_like_that_does_not_start(
    broker: Broker, tmp_path: Path, changed: dict[str, str], told: str
) -> None:
    (node,) = make_nodes(broker, tmp_path, "rewards=attacked-changelog", ["a"])
    environment = {**node.environment, **{f"STOREKEEPER_{name.upper()}": value for name, value in changed.items()}}
    code, output = refused_here(NodeProcess("a", node.address, environment, tmp_path / "a.log"))
    assert code == 78
    assert told in output


def test_a_flood_of_connections_leaves_room_for_new_ones(nodes: Nodes) -> None:
    idle = [socket.create_connection(tuple_of(nodes[0].address)) for _ in range(1200)]
    try:
        eventually(lambda: nodes[0].status("/livez") == 200, 60, "a new connection is answered")
    finally:
        for connection in idle:
            connection.close()


def tuple_of(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").partition(":")
    return host, int(port)
