"""Queries over HTTP beside Kafka Streams behind Vert.x: `make bench-query`.

One node and the peer hold the same changelog in RocksDB and answer `GET /state/keyvalue/STORE/KEY`. wrk asks each of
them in turns, over 32 connections, for the same keys in the same order. Each side is warm: every key was asked for
before. Measured are also: several keys in one request, beside the peer's single ones; a node that asks for tokens; and
reads that a node forwards to another one, beside those that it answers itself: under load by wrk, and one after the
other by Python's own HTTP client, as a program has it that isn't a load generator.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2

from benchmarks.results import Measure, write_results
from benchmarks.wrk import Load, Wrk, missing
from harness.broker import Broker, start_broker
from harness.changelog_writer import KafkaChangelogWriter
from harness.node_process import NodeProcess, make_nodes
from harness.ports import free_ports
from harness.tokens import write_callers
from harness.waiting import eventually
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.node.security.access import Caller, Role, new_token

PEER_JARS = Path(__file__).parents[1] / ".jars" / "kafka-streams"
PEER = "Kafka Streams 4.2 behind Vert.x 4.5"
TOPIC = "query-benchmark"
STORE = "rewards"
PARTITIONS = 4
HEADERS = ChangelogHeaders(1, 17, 1, {"pos": {0: (0, 1000), 1: (0, 1000)}})
_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked, and how often. `rounds` of all sides in turns, each for `seconds`."""

    keys: int
    rounds: int
    seconds: int
    warm_seconds: int
    connections: int = 32
    batch: int = 100


@dataclass(frozen=True, slots=True)
class Side:
    """One server and what it is asked."""

    address: str
    wrk: Wrk
    connections: int
    keys_per_request: int = 1


def row(number: int) -> tuple[bytes, bytes]:
    """A customer's points, as the loyalty app writes them."""
    value = (
        b'{"CustomerCardNo":"%010d","TotalLoyaltyPoints":%d.%04d,"InvoiceCount":%d,"LastInvoiceTime":1700000000%03d}'
    )
    return b"%010d" % number, value % (number, number % 100_000, number % 10_000, number % 50, number % 1000)


@contextmanager
def running_peer(broker: Broker, folder: Path) -> Iterator[str]:
    """The peer with the whole topic restored; gives its address."""
    port = free_ports(1)[0]
    command = ["java", "-Xmx1g", "-cp", f"{PEER_JARS}/*", "peer.Restore", broker.bootstrap, TOPIC, str(folder)]
    with subprocess.Popen([*command, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["records"] > 0
            address = f"http://127.0.0.1:{port}"
            eventually(lambda: answers(address), 30, "the peer answers")
            yield address
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


def answers(address: str) -> bool:
    """Whether a server has a row."""
    try:
        return value(address, 0) is not None
    except httpx2.TransportError:
        return False


def value(address: str, number: int, headers: Mapping[str, str] | None = None) -> object:
    """What a server says is the value of a key: the peer's answer is the value alone."""
    answer = httpx2.get(f"{address}/state/keyvalue/{STORE}/{number:010d}", headers=headers, trust_env=False).json()
    return answer.get("value", answer)


@contextmanager
def running_nodes(broker: Broker, folder: Path, names: str = "a", **settings: object) -> Iterator[list[NodeProcess]]:
    """Nodes that hold the topic between them, each partition once."""
    nodes = make_nodes(
        broker, folder, f"{STORE}={TOPIC}", names=names, replicas=0, cluster=f"cluster-{folder.name}", **settings
    )
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            # A node that wants a token tells nobody else that it is ready.
            eventually(lambda node=node: bool(node.events("restore_ended")), 60, f"node {node.name} has its rows")  # type: ignore[misc]
        yield nodes
    finally:
        for node in nodes:
            node.close()


def paths(numbers: Sequence[int]) -> list[str]:
    """One request a key."""
    return [f"/state/keyvalue/{STORE}/{number:010d}" for number in numbers]


def batches(numbers: Sequence[int], size: int) -> list[str]:
    """Requests for some keys each."""
    groups = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return [f"/state/keyvalues/{STORE} " + json.dumps({"keys": [f"{key:010d}" for key in group]}) for group in groups]


class OneByOne:
    """One client that asks a node for keys of its own and for others' keys in turns, each request after the last."""

    def __init__(self, address: str, mine: Sequence[int], theirs: Sequence[int]) -> None:
        self._connection = http.client.HTTPConnection(address.removeprefix("http://"))
        self._pairs = list(zip(paths(mine), paths(theirs), strict=False))

    def run(self, seconds: float) -> tuple[list[float], list[float]]:
        """Milliseconds of every local and every forwarded read."""
        local: list[float] = []
        forwarded: list[float] = []
        until_s = time.perf_counter() + seconds
        for mine, theirs in itertools.cycle(self._pairs):
            local.append(self._ask_ms(mine))
            forwarded.append(self._ask_ms(theirs))
            if time.perf_counter() > until_s:
                break
        return local, forwarded

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _ask_ms(self, path: str) -> float:
        began_s = time.perf_counter()
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, f"{path}: {answer.status}"
        return (time.perf_counter() - began_s) * 1000


def percentile(figures: Sequence[float], percent: int) -> float:
    """The smallest figure that the given percentage of all does not exceed."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


class Bench:
    """All sides, and what was found of each in every round."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.one_by_one: OneByOne | None = None
        self.reads: list[tuple[list[float], list[float]]] = []
        self.sides: dict[str, Side] = {}
        self.found: dict[str, list[Load]] = {}

    def run(self) -> None:
        """Warms every side, then measures them in turns."""
        for side in self.sides.values():
            side.wrk.run(side.address, connections=side.connections, seconds=self.sizes.warm_seconds)
        assert self.one_by_one is not None
        self.one_by_one.run(1)
        for _ in range(self.sizes.rounds):
            self.reads.append(self.one_by_one.run(self.sizes.seconds))
            for name, side in self.sides.items():
                load = side.wrk.run(side.address, connections=side.connections, seconds=self.sizes.seconds)
                self.found.setdefault(name, []).append(load)
                print(f"{name}: {load.per_second * side.keys_per_request:,.0f} keys/s, {load}")

    def read_ms(self, percent: int) -> tuple[list[float], list[float]]:
        """A percentile of forwarded and of local reads in each round."""
        return (
            [percentile(forwarded, percent) for _, forwarded in self.reads],
            [percentile(local, percent) for local, _ in self.reads],
        )

    def rates(self, name: str) -> list[float]:
        """Keys a second."""
        return [load.per_second * self.sides[name].keys_per_request for load in self.found[name]]

    def p50(self, name: str) -> list[float]:
        """Milliseconds."""
        return [load.p50_ms for load in self.found[name]]

    def p99(self, name: str) -> list[float]:
        """Milliseconds."""
        return [load.p99_ms for load in self.found[name]]


def measures(bench: Bench) -> list[Measure]:
    """Every pair of sides that is to be compared."""
    many, split = "many keys at once", "answered where it was asked"

    def latency(name: str, ours: list[float], peer: list[float], peer_name: str) -> Measure:
        return Measure(name, "ms", ours, peer, peer_name, higher_is_better=False)

    peer = bench.rates("peer")
    return [
        Measure("point queries", "requests/s", bench.rates("node"), peer, PEER),
        latency("point queries: p50", bench.p50("node"), bench.p50("peer"), PEER),
        latency("point queries: p99", bench.p99("node"), bench.p99("peer"), PEER),
        Measure("point queries with a token", "requests/s", bench.rates("token"), bench.rates("node"), "without one"),
        latency("point queries with a token: p99", bench.p99("token"), bench.p99("node"), "without one"),
        Measure(many, "keys/s", bench.rates("batch"), peer, f"{PEER}, one key a request"),
        latency("forwarded read: p50", *bench.read_ms(50), split),
        latency("forwarded read: p99", *bench.read_ms(99), split),
        Measure("forwarded reads under load", "requests/s", bench.rates("forwarded"), bench.rates("local"), split),
        latency("forwarded reads under load: p99", bench.p99("forwarded"), bench.p99("local"), split),
    ]


def owned(node: NodeProcess, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """The keys that a node has itself, and those of the other one."""
    mine: dict[bool, list[int]] = {True: [], False: []}
    with httpx2.Client(trust_env=False) as client:
        for number in numbers:
            answer = client.get(f"{node.address}/state/keyvalue/{STORE}/{number:010d}")
            mine[answer.headers["storekeeper-served-by"] == node.name].append(number)
    return mine[True], mine[False]


def run(sizes: Sizes, folder: Path) -> Bench:
    """Starts everything, measures, stops everything."""
    bench = Bench(sizes)
    numbers = list(range(sizes.keys))
    random.Random(1).shuffle(numbers)
    with ExitStack() as running:
        broker = start_broker(folder / "broker")
        running.callback(broker.stop)
        broker.create_topic(TOPIC, PARTITIONS, {"cleanup.policy": "compact"})
        with KafkaChangelogWriter(broker.bootstrap, TOPIC) as writer:
            writer.write(map(row, range(sizes.keys)), HEADERS)
        peer = running.enter_context(running_peer(broker, folder / "peer"))
        (node,) = running.enter_context(running_nodes(broker, folder / "one"))
        node.wait_ready()
        token = new_token()
        tokens = folder / "tokens"
        reader = Caller("bench", frozenset({Role.READER}))
        write_callers(tokens, {token: reader})
        bearer = {"authorization": f"Bearer {token}"}
        (guarded,) = running.enter_context(running_nodes(broker, folder / "token", tokens_file=tokens))
        here, there = running.enter_context(running_nodes(broker, folder / "two", "ab"))
        for one in (here, there):
            one.wait_ready()
        for number in numbers[:_COMPARED]:
            values = [value(peer, number), value(node.address, number), value(guarded.address, number, bearer)]
            assert values[0] == values[1] == values[2] == json.loads(row(number)[1]), f"key {number}: {values}"
        mine, theirs = owned(here, numbers[: min(2000, sizes.keys)])
        many = sizes.connections
        bench.one_by_one = OneByOne(here.address, mine, theirs)
        running.callback(bench.one_by_one.close)
        bench.sides = {
            "peer": Side(peer, Wrk(folder / "wrk-peer", paths(numbers)), many),
            "node": Side(node.address, Wrk(folder / "wrk-node", paths(numbers)), many),
            "token": Side(guarded.address, Wrk(folder / "wrk-token", paths(numbers), bearer), many),
            "batch": Side(node.address, Wrk(folder / "wrk-batch", batches(numbers, sizes.batch)), many, sizes.batch),
            "local": Side(here.address, Wrk(folder / "wrk-local", paths(mine)), many),
            "forwarded": Side(here.address, Wrk(folder / "wrk-forwarded", paths(theirs)), many),
        }
        bench.run()
    return bench


def main() -> int:
    """Measures, writes the result; fails if an answer was wrong or a request failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    smoke: bool = parser.parse_args().smoke
    if (advice := missing()) is not None:
        print(advice)
        return 0
    sizes = Sizes(2000, 1, 1, 1) if smoke else Sizes(100_000, 5, 4, 6)
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    try:
        bench = run(sizes, folder)
    finally:
        shutil.rmtree(folder)
    found = measures(bench)
    for measure in found:
        print(measure.as_dict())
    if not smoke:
        print(write_results("query", found, asdict(sizes)))
    failed = {name: sum(load.failed for load in loads) for name, loads in bench.found.items()}
    return 1 if any(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
