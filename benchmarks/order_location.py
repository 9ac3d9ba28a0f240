"""Where an order is, kept in three ways: `make bench-order_location`.

The same topic of locations, read into a global store (every node has all of it), into a partitioned store (each node
has its part, and asks the other one for the rest), and into Redis by a small consumer. For each: reads a second and
their latency, asked by two clients that each wait for the answer; how long an update takes to be seen; the memory of
all processes that hold the data; and which share of the orders can't be read after one of these processes was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import orjson
import psutil

from benchmarks.results import Measure, write_results
from harness.broker import Broker, start_broker
from harness.changelog_writer import KafkaChangelogWriter
from harness.node_process import COMPACTED, make_nodes
from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.changelog.headers import ChangelogHeaders

TOPIC = "order-locations"
HEADERS = ChangelogHeaders(1, 1, 1, {"order-events": {0: (0, 1)}})
CLIENTS = 2
_REDIS_ROWS = b"orders"
_TIMEOUT_S = 2.0

Read = Callable[[bytes], bytes | None]
"""The value of an order, None if there is none. Raises OSError when nobody answers."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many orders, for how long reads are timed and failures watched, and how many updates are followed."""

    orders: int
    seconds: float
    updates: int


FULL = Sizes(orders=200_000, seconds=8.0, updates=200)
SMOKE = Sizes(orders=2_000, seconds=0.5, updates=5)


class HttpReader:
    """Asks one node after the other, over one connection to each."""

    def __init__(self, store: str, ports: list[int]) -> None:
        self._store = store
        self._ports = ports
        self._sockets: dict[int, socket.socket] = {}

    def __call__(self, key: bytes) -> bytes | None:
        """The value, from the first node that answers."""
        for port in self._ports:
            try:
                status, body = self._get(port, key)
            except OSError:
                self._sockets.pop(port, None)
                continue
            if status == 404:
                return None
            if status == 200:
                return body
        raise OSError("no node answers")

    def _get(self, port: int, key: bytes) -> tuple[int, bytes]:
        connection = self._sockets.get(port)
        if connection is None:
            connection = self._sockets[port] = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(
            b"GET /state/keyvalue/%s/%s HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % (self._store.encode(), key)
        )
        head, _, body = _received(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < int(lengths[0].partition(b":")[2]):
            body += _more(connection)
        return int(head[9:12]), body


class RedisReader:
    """Asks a Redis server, in its own protocol."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def __call__(self, key: bytes) -> bytes | None:
        """The value."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), _TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket.sendall(b"*3\r\n$4\r\nHGET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (6, _REDIS_ROWS, len(key), key))
            head, _, body = _received(self._socket, b"\r\n").partition(b"\r\n")
            while len(body) < int(head[1:]) + 2 and head != b"$-1":
                body += _more(self._socket)
        except OSError:
            self._socket = None
            raise
        return None if head == b"$-1" else body[:-2]


def _received(connection: socket.socket, until: bytes) -> bytes:
    found = b""
    while until not in found:
        found += _more(connection)
    return found


def _more(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise ConnectionResetError("the server ended")
    return part


@dataclass(frozen=True, slots=True)
class Solution:
    """One way of keeping the locations, while it runs. `pids` hold the data; the last of them is killed in the end."""

    name: str
    reader: Callable[[], Read]
    pids: list[int]


@contextmanager
def on_nodes(broker: Broker, folder: Path, kind: str) -> Iterator[Solution]:
    """Two nodes with a global or a partitioned store. The partitioned one has no standbys: each row is on one node."""
    definition = f"orders={TOPIC}:global" if kind == "global store" else f"orders={TOPIC}"
    nodes = make_nodes(broker, folder / kind.replace(" ", "-"), definition, replicas=0)
    for node in nodes:
        node.start()
    try:
        for node in nodes:
            node.wait_ready(120)
        ports = [int(node.address.rpartition(":")[2]) for node in nodes]
        yield Solution(kind, lambda: HttpReader("orders", ports), [node.pid for node in nodes])
    finally:
        for node in nodes:
            with contextlib.suppress(OSError):
                node.close()


@contextmanager
def on_redis(broker: Broker, orders: int) -> Iterator[Solution]:
    """A Redis server without persistence, and a consumer that writes the topic into it."""
    port = free_ports(1)[0]
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    consumer = subprocess.Popen([sys.executable, "-m", "benchmarks.redis_consumer", broker.bootstrap, TOPIC, str(port)])
    try:
        last = _order(orders - 1)

        def loaded() -> bool:
            try:
                return RedisReader(port)(last) is not None
            except OSError:
                return False

        eventually(loaded, 120, "Redis has every order")
        yield Solution("Redis", lambda: RedisReader(port), [consumer.pid, server.pid])
    finally:
        for process in (consumer, server):
            process.kill()
            process.wait()


def _order(number: int) -> bytes:
    return b"order-%d" % number


def location(number: int, version: int = 0) -> bytes:
    """A row as the app writes it."""
    return orjson.dumps(
        {
            "OrderNumber": f"order-{number}",
            "Status": "ON-THE-WAY",
            "Latitude": 18.5204,
            "Longitude": 73.8567,
            "UpdatedTime": 1_700_000_000_000 + version,
        }
    )


def client(make: Callable[[], Read], orders: int, seconds: float, seed: int) -> tuple[list[float], int]:
    """Reads random orders for so long: how long each took, in seconds, and how many failed."""
    read, chance, taken, failed = make(), random.Random(seed), [], 0
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        try:
            found = read(_order(chance.randrange(orders)))
        except OSError:
            failed += 1
            time.sleep(0.001)
            continue
        taken.append(time.perf_counter() - began)
        if found is None:
            failed += 1
    return taken, failed


def clients(solution: Solution, sizes: Sizes, *, before: Callable[[], None] = lambda: None) -> tuple[list[float], int]:
    """The same by several processes at once. `before` is called when they have begun."""
    context = multiprocessing.get_context("fork")
    pipes = []
    for seed in range(CLIENTS):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_report, args=(there, solution, sizes, seed))
        process.start()
        pipes.append((here, process))
    time.sleep(sizes.seconds / 20)
    before()
    taken: list[float] = []
    failed = 0
    for here, process in pipes:
        some, fails = here.recv()
        process.join()
        taken += some
        failed += fails
    return taken, failed


def _report(there: Connection, solution: Solution, sizes: Sizes, seed: int) -> None:
    there.send(client(solution.reader, sizes.orders, sizes.seconds, seed))


def freshness(solution: Solution, writer: KafkaChangelogWriter, sizes: Sizes) -> list[float]:
    """From writing an update to reading it, in seconds."""
    read, taken = solution.reader(), []
    for version in range(1, sizes.updates + 1):
        number = version % sizes.orders
        began = time.perf_counter()
        writer.write([(_order(number), location(number, version))], HEADERS)
        wanted = b"%d" % (1_700_000_000_000 + version)
        while wanted not in (read(_order(number)) or b""):
            if time.perf_counter() - began > 30:
                raise TimeoutError("an update was never seen")
        taken.append(time.perf_counter() - began)
        time.sleep(0.01)
    return taken


def measure(solution: Solution, writer: KafkaChangelogWriter, sizes: Sizes) -> list[Measure]:
    """Everything about one solution; its last process is dead afterwards."""
    clients(solution, Sizes(sizes.orders, sizes.seconds / 4, 0))  # warms up
    taken, wrong = clients(solution, sizes)
    if wrong:
        sys.exit(f"{wrong} reads of the {solution.name} failed while nothing was wrong")
    fresh = freshness(solution, writer, sizes)
    memory = sum(psutil.Process(pid).memory_info().rss for pid in solution.pids) / 2**20
    after, failed = clients(solution, sizes, before=lambda: os.kill(solution.pids[-1], signal.SIGKILL))

    def lower(name: str, unit: str, figure: float) -> Measure:
        return Measure(f"{solution.name}: {name}", unit, [figure], higher_is_better=False)

    return [
        Measure(f"{solution.name}: reads", "reads/s", [len(taken) / sizes.seconds]),
        lower("read, p50", "ms", 1000 * statistics.median(taken)),
        lower("read, p99", "ms", 1000 * statistics.quantiles(taken, n=100)[98]),
        lower("update to visible, p50", "ms", 1000 * statistics.median(fresh)),
        lower("memory of all processes", "MiB", memory),
        lower("keys that fail after a kill -9", "%", 100 * _failing(solution, sizes)),
        lower("reads that failed meanwhile", "%", 100 * failed / max(1, failed + len(after))),
    ]


def _failing(solution: Solution, sizes: Sizes) -> float:
    read, asked = solution.reader(), min(200, sizes.orders)
    failed = 0
    for number in range(asked):
        try:
            failed += read(_order(number)) is None
        except OSError:
            failed += 1
    return failed / asked


def main() -> None:
    """Runs the benchmark and writes its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else FULL
    folder = Path(tempfile.mkdtemp(prefix="bench-order-location-"))
    broker = start_broker(folder / "broker")
    measures: list[Measure] = []
    try:
        broker.create_topic(TOPIC, 4, COMPACTED)
        with KafkaChangelogWriter(broker.bootstrap, TOPIC) as writer:
            writer.write([(_order(number), location(number)) for number in range(sizes.orders)], HEADERS)
            for kind in ("global store", "partitioned store"):
                with on_nodes(broker, folder, kind) as solution:
                    measures += measure(solution, writer, sizes)
            if shutil.which("redis-server"):
                with on_redis(broker, sizes.orders) as solution:
                    measures += measure(solution, writer, sizes)
    finally:
        broker.stop()
        shutil.rmtree(folder)
    for one in measures:
        print(f"{one.name}: {one.ours[0]:,.3f} {one.unit}")
    if not arguments.smoke:
        print(write_results("order_location", measures, {"orders": sizes.orders, "clients": CLIENTS, "nodes": 2}))


if __name__ == "__main__":
    main()
