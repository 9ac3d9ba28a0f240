"""Point reads beside heavy work: `make bench-neighbours`.

One node answers point reads at an even pace, alone and beside scanners, streams and scrapes, in turns, with and without
TLS. No read waits for the answer to another, so whatever holds the node up shows in every read that waits. The ratio is
the 99th percentile beside the heavy work to that of the same round without it. It is reported twice:

- from when a read was sent: what the node does to it;
- from when it was due: what the client sees, its own timer included, which is late by a millisecond at times.

The load shares the machine with the node, so it is light. The heavy requests come from a process of its own, which
throws the answers away unread.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from benchmarks.query import HEADERS, PARTITIONS, percentile, row
from benchmarks.results import Measure, write_results
from harness.broker import start_broker
from harness.certificates import make_authority
from harness.changelog_writer import KafkaChangelogWriter
from harness.node_process import NodeProcess, make_nodes
from harness.waiting import eventually

TOPIC, STORE = "neighbours-benchmark", "rewards"
GOAL = 3.0
_STEP_S = 0.001
_AT_IT = "at it"
_ARROW = "application/vnd.apache.arrow.stream"
_NDJSON = "application/x-ndjson"
_ALL = f"/state/keyvalues/{STORE}/all"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows and reads a second, and how many rounds of how many seconds for each neighbour."""

    rows: int
    reads_per_second: int
    rounds: int
    seconds: int
    connections: int = 8


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Heavy requests. Each client asks again after it has its answer and has paused."""

    name: str
    clients: int
    path: str
    accept: str = "*/*"
    pause_s: float = 0.0


NEIGHBOURS = (
    Neighbour("32 scanners", 32, f"{_ALL}?limit=1000", pause_s=0.1),
    Neighbour("16 Arrow streams", 16, _ALL, _ARROW),
    Neighbour("16 NDJSON streams", 16, _ALL, _NDJSON),
    Neighbour("32 scrapes", 32, "/metrics", pause_s=0.1),
)


@dataclass
class Found:
    """What was measured of one neighbour, round by round: 99th percentiles, milliseconds."""

    sent_quiet_ms: list[float] = field(default_factory=list)
    sent_loaded_ms: list[float] = field(default_factory=list)
    due_quiet_ms: list[float] = field(default_factory=list)
    due_loaded_ms: list[float] = field(default_factory=list)
    answers: int = 0


@dataclass
class Latencies:
    """Milliseconds of every read of one round."""

    since_sent: list[float] = field(default_factory=list)
    since_due: list[float] = field(default_factory=list)

    def add(self, sent_s: float, due_s: float) -> None:
        """Adds a read that ends now."""
        now_s = time.perf_counter()
        self.since_sent.append(1000 * (now_s - sent_s))
        self.since_due.append(1000 * (now_s - due_s))


class Reads:
    """Point reads at an even pace."""

    def __init__(self, address: str, trusting: ssl.SSLContext | None, sizes: Sizes) -> None:
        parts = urlsplit(address)
        self._place = (parts.hostname, parts.port)
        self._trusting = trusting
        self._sizes = sizes

    async def run(self) -> Latencies:
        """One round."""
        found = Latencies()
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        for _ in range(self._sizes.connections):
            free.put_nowait(await asyncio.open_connection(*self._place, ssl=self._trusting))
        began_s = time.perf_counter() + 10 * _STEP_S
        async with asyncio.TaskGroup() as group:
            for number in range(self._sizes.reads_per_second * self._sizes.seconds):
                due_s = began_s + number / self._sizes.reads_per_second
                await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
                group.create_task(self._one(number, due_s, free, found))
        while not free.empty():
            free.get_nowait()[1].close()
        return found

    async def _one(
        self,
        number: int,
        due_s: float,
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
        found: Latencies,
    ) -> None:
        sent_s = time.perf_counter()
        reader, writer = await free.get()
        key = number * 7919 % self._sizes.rows
        writer.write(b"GET /state/keyvalue/%b/%010d HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % (STORE.encode(), key))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        found.add(sent_s, due_s)
        free.put_nowait((reader, writer))


async def _visit(neighbour: Neighbour, address: str, trusting: ssl.SSLContext | None, counted: list[int]) -> None:
    """One client of a neighbour, for ever."""
    parts = urlsplit(address)
    request = f"GET {neighbour.path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: {neighbour.accept}\r\n\r\n".encode()
    end = b"0\r\n\r\n" if neighbour.accept != "*/*" else b""
    while True:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=trusting, limit=1 << 22)
        status = b"HTTP/1.1 200"
        while status.startswith((b"HTTP/1.1 200", b"HTTP/1.1 429")):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            status = head[:12]
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await (reader.readexactly(int(length)) if length else _until(reader, end))
            if status == b"HTTP/1.1 200":
                counted[0] += 1
                if counted[0] == neighbour.clients:
                    print(_AT_IT, flush=True)
            await asyncio.sleep(neighbour.pause_s)
        print(f"{neighbour.name}: {head!r}", file=sys.stderr)
        return


async def _until(reader: asyncio.StreamReader, end: bytes) -> None:
    tail = b""
    while not tail.endswith(end):
        tail = (tail + await reader.read(1 << 18))[-len(end) :]


async def _visits(neighbour: Neighbour, address: str, ca: str) -> None:
    """All clients of a neighbour until a line comes from standard input; prints how many answers there were."""
    trusting = ssl.create_default_context(cafile=ca) if ca else None
    counted = [0]
    clients = [asyncio.create_task(_visit(neighbour, address, trusting, counted)) for _ in range(neighbour.clients)]
    await asyncio.wait([*clients, asyncio.create_task(_stopped())], return_when=asyncio.FIRST_COMPLETED)
    failed = [client for client in clients if client.done()]
    for client in clients:
        client.cancel()
    assert not failed, "a client ended"
    print(json.dumps(counted[0]))


async def _stopped() -> None:
    await asyncio.to_thread(sys.stdin.readline)


@contextmanager
def visited(neighbour: Neighbour, address: str, ca: str, found: Found) -> Iterator[None]:
    """While the block runs, a process of its own sends the heavy queries."""
    command = [sys.executable, "-m", "benchmarks.neighbours", "--visit", neighbour.name, address, ca]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{_AT_IT}\n", f"{neighbour.name} failed"
            yield
        finally:
            out, _ = process.communicate("stop\n", timeout=60)
        assert process.returncode == 0, f"{neighbour.name} failed"
        found.answers += int(out)


def measure(node: NodeProcess, ca: str, sizes: Sizes) -> dict[str, Found]:
    """Every neighbour in turns, each with a quiet time before it."""
    trusting = ssl.create_default_context(cafile=ca) if ca else None
    reads = Reads(node.address, trusting, sizes)
    results = {neighbour.name: Found() for neighbour in NEIGHBOURS}
    asyncio.run(reads.run())  # warms
    for _ in range(sizes.rounds):
        for neighbour in NEIGHBOURS:
            found = results[neighbour.name]
            quiet = asyncio.run(reads.run())
            with visited(neighbour, node.address, ca, found):
                loaded = asyncio.run(reads.run())
            found.sent_quiet_ms.append(percentile(quiet.since_sent, 99))
            found.sent_loaded_ms.append(percentile(loaded.since_sent, 99))
            found.due_quiet_ms.append(percentile(quiet.since_due, 99))
            found.due_loaded_ms.append(percentile(loaded.since_due, 99))
            print(f"{neighbour.name}{' with TLS' if ca else ''}: {found}", flush=True)
    return results


def is_ready(node: NodeProcess, ca: str) -> bool:
    """Whether a node answers for all that it holds."""
    try:
        verify = ssl.create_default_context(cafile=ca) if ca else True
        return httpx2.get(f"{node.address}/readyz", verify=verify, trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


def run(sizes: Sizes, folder: Path) -> dict[str, Found]:
    """Starts everything, measures, stops everything."""
    results: dict[str, Found] = {}
    with ExitStack() as running:
        broker = start_broker(folder / "broker")
        running.callback(broker.stop)
        broker.create_topic(TOPIC, PARTITIONS, {"cleanup.policy": "compact"})
        with KafkaChangelogWriter(broker.bootstrap, TOPIC) as writer:
            writer.write(map(row, range(sizes.rows)), HEADERS)
        authority = make_authority(folder / "ca")
        certificate, key = authority.issue("node")
        ca = str(authority.certificate)
        tls = {"tls_certificate": certificate, "tls_key": key, "tls_peer_ca": ca}
        for way, trusted, settings in (("", "", {}), (" with TLS", ca, tls)):
            (node,) = make_nodes(
                broker,
                folder / f"run{len(settings)}",
                f"{STORE}={TOPIC}",
                "a",
                replicas=0,
                cluster=f"cluster-{len(settings)}",
                **settings,
            )
            if trusted:
                node.address = node.address.replace("http:", "https:")
            results |= {f"{name}{way}": found for name, found in measured(node, trusted, sizes).items()}
    return results


def measured(node: NodeProcess, ca: str, sizes: Sizes) -> dict[str, Found]:
    """Starts a node, measures, stops it."""
    try:
        node.start()
        eventually(lambda: is_ready(node, ca), 120, "the node is ready")
        return measure(node, ca, sizes)
    finally:
        node.close()


def measures(results: dict[str, Found]) -> list[Measure]:
    """The 99th percentile beside each neighbour, and without it."""
    return [
        Measure(f"reads beside {name}: p99 since {since}", "ms", loaded_ms, quiet_ms, "alone", higher_is_better=False)
        for name, found in results.items()
        for since, loaded_ms, quiet_ms in (
            ("due", found.due_loaded_ms, found.due_quiet_ms),
            ("sent", found.sent_loaded_ms, found.sent_quiet_ms),
        )
    ]


def main() -> int:
    """Measures, writes the result; fails if a request failed or a neighbour got no answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    parser.add_argument("--visit", nargs=3, metavar=("NEIGHBOUR", "ADDRESS", "CA"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.visit is not None:
        name, address, ca = options.visit
        asyncio.run(_visits(next(n for n in NEIGHBOURS if n.name == name), address, ca))
        return 0
    sizes = Sizes(3000, 200, 1, 1) if options.smoke else Sizes(20_000, 500, 5, 6)
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    try:
        results = run(sizes, folder)
    finally:
        shutil.rmtree(folder)
    found = measures(results)
    for one in found:
        print(one.as_dict())
    starved = [name for name, one in results.items() if not one.answers]
    print(f"without an answer: {starved}" if starved else f"all answered; the goal of each ratio is {GOAL} at most")
    if not options.smoke:
        print(write_results("neighbours", found, asdict(sizes)))
    return 1 if starved else 0


if __name__ == "__main__":
    sys.exit(main())
