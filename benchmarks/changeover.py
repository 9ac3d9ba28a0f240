"""A store that changes over to another changelog and back, under writes and reads: `make bench-changeover`.

Three nodes share the partitions, without standbys, so that most reads take a hop. Two generations write the same
changes in two formats, to 12 and to 8 partitions, as they do during a migration. Reads are sent at a steady rate,
whether answers come or not. For each step: failed reads, answers that are older than two seconds, p99 beside that of
the quiet time before (as the peer), and the load that was reached. How long changing over and rolling back took, from
the record to the last node. And in the end, whether every node tells every row as it was written last, no update less
or more. It fails if any of that is wrong, going back takes ten seconds, or p99 is over twice that of the quiet time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from benchmarks.failover import p99_ms
from benchmarks.results import Measure, write_results
from harness.broker import Broker, start_broker
from harness.changelog_writer import KafkaChangelogWriter
from harness.node_process import COMPACTED, HEADERS, NodeProcess, make_nodes
from harness.waiting import eventually
from storekeeper.node.cluster.aliases import Alias, publish_alias
from storekeeper.node.security.cluster_secret import load_cluster_secret

OLD, NEW = "changeover-old", "changeover-new"
ALLOWED_S = 2.0
ROLL_BACK_S = 10.0
WRITE_EVERY_S = 0.05
CONNECTIONS = 8
LATE_S = 5.0
MOST_P99 = 2.0
LEAST_LOAD = 0.95
SETTLE_S = 20.0


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many keys, writes and reads a second, and for how long each step is watched."""

    keys: int
    writes: int
    reads: int
    seconds: float


FULL = Sizes(keys=20_000, writes=1000, reads=1000, seconds=15)
SMOKE = Sizes(keys=500, writes=100, reads=50, seconds=2)


@dataclass(slots=True)
class Writer:
    """Writes the keys one after the other, to both topics, at a rate; remembers when which number was acknowledged."""

    bootstrap: str
    sizes: Sizes
    stopped: threading.Event = field(default_factory=threading.Event)
    acknowledged: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    written: int = 0

    def last(self) -> dict[str, tuple[int, int]]:
        """By key: the number that was written last, and how many there were."""
        return {key: (known[-1][1], len(known)) for key, known in self.acknowledged.items()}

    def run(self) -> None:
        """Runs in a thread."""
        keys = [f"{number:06d}" for number in range(self.sizes.keys)]
        a_time = max(1, int(self.sizes.writes * WRITE_EVERY_S))
        with KafkaChangelogWriter(self.bootstrap, OLD) as old, KafkaChangelogWriter(self.bootstrap, NEW) as new:
            self._write(keys, old, new)
            next_s = time.monotonic()
            while not self.stopped.wait(max(0.0, next_s - time.monotonic())):
                next_s += WRITE_EVERY_S
                self._write([keys[(self.written + at) % len(keys)] for at in range(a_time)], old, new)

    def owed(self, key: str, at_s: float) -> int:
        """The number that a read of a key at a time must show at least."""
        known = self.acknowledged.get(key, [])
        at = bisect_right(known, (at_s - ALLOWED_S, sys.maxsize))
        return known[at - 1][1] if at else 0

    def _write(self, keys: list[str], old: KafkaChangelogWriter, new: KafkaChangelogWriter) -> None:
        numbered = {key: self.written + at for at, key in enumerate(keys, 1)}
        for writer, form in ((new, 2), (old, 1)):
            writer.write(
                [
                    (key.encode(), b'{"number":%d,"updates":%d,"format":%d}' % (number, self._updates(key), form))
                    for key, number in numbered.items()
                ],
                HEADERS,
            )
        for writer in (new, old):
            writer.flush()
        at_s = time.monotonic()
        for key, number in numbered.items():
            self.acknowledged.setdefault(key, []).append((at_s, number))
        self.written += len(keys)

    def _updates(self, key: str) -> int:
        return len(self.acknowledged.get(key, ())) + 1


@dataclass(slots=True)
class Reads:
    """What became of the reads of one step. `formats` counts answers by the generation that they came from."""

    latencies_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    formats: dict[int, int] = field(default_factory=dict)
    late_starts: int = 0
    per_second: float = 0.0
    written_per_second: float = 0.0


class Reader(ABC):
    """Reads at a steady rate from all nodes. `reads` may be replaced at any time: the step that is counted now."""

    def __init__(self, nodes: list[NodeProcess], per_second: int) -> None:
        self.reads = Reads()
        self._ports = [int(node.address.rpartition(":")[2]) for node in nodes]
        self._per_second = per_second
        self._stopped = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join()

    async def _run(self) -> None:
        lanes = [(port, lane) for lane in range(CONNECTIONS) for port in self._ports]
        await asyncio.gather(*(self._lane(port, at, len(lanes)) for at, (port, _) in enumerate(lanes)))

    async def _lane(self, port: int, lane: int, lanes: int) -> None:
        every_s = lanes / self._per_second
        at = lane
        next_s = time.monotonic() + every_s * lane / lanes
        stream: Stream | None = None
        while not self._stopped:
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            reads = self.reads
            reads.late_starts += time.monotonic() - next_s > 1
            next_s = max(next_s + every_s, time.monotonic() - 1)
            at += lanes
            began_s = time.monotonic()
            try:
                stream = stream or await asyncio.open_connection("127.0.0.1", port)
                async with asyncio.timeout(LATE_S):
                    await self.ask(stream, at * 7919, reads)
            except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as error:
                reads.wrong.append(repr(error))
                stream = None
                continue
            reads.latencies_s.append(time.monotonic() - began_s)
        if stream is not None:
            stream[1].close()

    @abstractmethod
    async def ask(self, stream: Stream, number: int, reads: Reads) -> None:
        """Reads one row, whose key follows from the number, and notes in `reads` what is not as it must be."""


class NumberReader(Reader):
    """Reads what a `Writer` writes."""

    def __init__(self, nodes: list[NodeProcess], writer: Writer, sizes: Sizes) -> None:
        super().__init__(nodes, sizes.reads)
        self._writer = writer
        self._keys = sizes.keys

    async def ask(self, stream: Stream, number: int, reads: Reads) -> None:
        """No answer may be older than it is allowed to be."""
        key, began_s = f"{number % self._keys:06d}", time.monotonic()
        status, body = await get(stream, f"/state/keyvalue/rewards/{key}")
        owed = self._writer.owed(key, began_s)
        value = json.loads(body)["value"] if status == 200 else {}
        if value.get("number", -1) < owed:
            reads.wrong.append(f"{key}: {status} {body[:200]!r}, owed {owed}")
        else:
            reads.formats[value["format"]] = reads.formats.get(value["format"], 0) + 1


async def get(stream: Stream, path: str) -> tuple[int, bytes]:
    """Status and body of a GET on a kept connection."""
    reader, writer = stream
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    return int(head[9:12]), await reader.readexactly(length)


@dataclass(slots=True)
class Steps:
    """The steps of a change, each under load, and what was seen."""

    broker: Broker
    folder: Path
    nodes: list[NodeProcess]
    writer: Writer
    reader: Reader
    sizes: Sizes
    reads: dict[str, Reads] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    differing: int = 0

    def play(self) -> None:
        """All of them."""
        self._step("quiet")
        self._step("warm", Alias("rewards", 2, NEW, OLD, 1, prepare=True), self._warm)
        self._step("change over", Alias("rewards", 2, NEW, OLD, 2), lambda: self._answers(NEW))
        self._step("roll back", Alias("rewards", 1, OLD, NEW, 3), lambda: self._answers(OLD))
        self._step("change over again", Alias("rewards", 2, NEW, OLD, 4), lambda: self._answers(NEW))
        self._step("retire", Alias("rewards", 2, NEW, None, 5), lambda: not self._held(OLD))

    def _step(self, name: str, alias: Alias | None = None, done: Callable[[], bool] = lambda: True) -> None:
        self.reads[name] = self.reader.reads = Reads()
        began_s, written = time.monotonic(), self.writer.written
        if alias is not None:
            secret = load_cluster_secret(self.folder / "secrets" / "cluster.key")
            publish_alias(self.broker.kafka, secret, alias)
        eventually(done, 120, name)
        self.took_s[name] = time.monotonic() - began_s
        time.sleep(self.sizes.seconds)
        lasted_s, reads = time.monotonic() - began_s, self.reads[name]
        reads.per_second = len(reads.latencies_s) / lasted_s
        reads.written_per_second = (self.writer.written - written) / lasted_s
        tell(name, self.reads[name], self.took_s[name])

    def compare(self) -> None:
        """Counts the rows of a node that differ from what was written; the writer has ended."""
        expected = self.writer.last()

        def differing() -> int:
            return sum(_differing(node, expected) for node in self.nodes)

        with suppress(AssertionError):
            eventually(lambda: differing() == 0, SETTLE_S, "every row is as it was written last")
        self.differing = differing()

    def _warm(self) -> bool:
        return self._held(NEW) and all(
            replica["serving"]
            for node in self.nodes
            for replica in node.get("/state/lag").json()["replicas"]
            if replica["topic"] == NEW
        )

    def _held(self, topic: str) -> bool:
        return any(
            replica["topic"] == topic for node in self.nodes for replica in node.get("/state/lag").json()["replicas"]
        )

    def _answers(self, topic: str) -> bool:
        return all(node.get("/state/stores/rewards").json()["topic"] == topic for node in self.nodes)


def _differing(node: NodeProcess, expected: dict[str, tuple[int, int]]) -> int:
    lines = node.get("/state/keyvalues/rewards/all", headers={"accept": "application/x-ndjson"}).text.splitlines()
    rows = {row["key"]: (row["value"]["number"], row["value"]["updates"]) for row in map(json.loads, lines[:-1])}
    return sum(rows.get(key) != wanted for key, wanted in expected.items()) + len(rows.keys() - expected.keys())


def run(broker: Broker, folder: Path, sizes: Sizes) -> Steps:
    """The whole measurement."""
    broker.create_topic(OLD, 12, COMPACTED)
    broker.create_topic(NEW, 8, COMPACTED)
    writer = Writer(broker.bootstrap, sizes)
    nodes = make_nodes(broker, folder, f"rewards={OLD}", names=("a", "b", "c"), replicas=0)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        eventually(lambda: len(writer.acknowledged) == sizes.keys, 60, "every key is written")
        time.sleep(ALLOWED_S)
        with NumberReader(nodes, writer, sizes) as reader:
            steps = Steps(broker, folder, nodes, writer, reader, sizes)
            steps.play()
        writer.stopped.set()
        thread.join()
        steps.compare()
        return steps
    finally:
        writer.stopped.set()
        thread.join()
        for node in nodes:
            with suppress(OSError):
                node.close()


def tell(name: str, reads: Reads, took_s: float) -> None:
    """For people."""
    print(
        f"{name:18} took {took_s:5.2f} s  reads {len(reads.latencies_s):6}  wrong {len(reads.wrong)}  "
        f"p99 {p99_ms(reads.latencies_s):6.1f} ms  formats {reads.formats}  late {reads.late_starts}  "
        f"reads/s {reads.per_second:.0f}  writes/s {reads.written_per_second:.0f}",
        flush=True,
    )
    for reason in reads.wrong[:3]:
        print(f"    {reason}", flush=True)


def measures(steps: Steps) -> list[Measure]:
    """Failed and late answers, p99 of each step beside the quiet time, and how long changing took."""
    quiet_ms = p99_ms(steps.reads["quiet"].latencies_s)
    wrong = float(sum(len(reads.wrong) for reads in steps.reads.values()))
    rows = [
        Measure("failed or outdated reads", "reads", [wrong], higher_is_better=False),
        Measure("rows that differ from the oracle", "rows", [float(steps.differing)], higher_is_better=False),
        Measure("reads reached", "reads/s", [reads.per_second for reads in steps.reads.values()]),
        Measure("updates reached", "updates/s", [reads.written_per_second for reads in steps.reads.values()]),
        *(
            Measure(f"{name}: until the last node", "s", [steps.took_s[name]], higher_is_better=False)
            for name in ("change over", "roll back")
        ),
    ]
    for name, reads in steps.reads.items():
        if name != "quiet":
            p99 = p99_ms(reads.latencies_s)
            rows.append(
                Measure(
                    f"{name}: p99 of reads", "ms", [p99], [quiet_ms], "the quiet time before", higher_is_better=False
                )
            )
    return rows


def holds(steps: Steps) -> bool:
    """Whether nothing failed, was outdated or lost, and going back was fast."""
    changed = steps.reads["change over"].formats.get(2, 0) and steps.reads["roll back"].formats.get(1, 0)
    right = not steps.differing and not any(reads.wrong for reads in steps.reads.values())
    return right and bool(changed) and steps.took_s["roll back"] < ROLL_BACK_S


def keeps_up(steps: Steps) -> bool:
    """Whether the load was there throughout, and reads took at most twice as long as before. Says what was not so."""
    quiet_ms, said = p99_ms(steps.reads["quiet"].latencies_s), []
    for name, reads in steps.reads.items():
        if min(reads.per_second / steps.sizes.reads, reads.written_per_second / steps.sizes.writes) < LEAST_LOAD:
            said.append(f"{name}: only {reads.per_second:.0f} reads/s, {reads.written_per_second:.0f} updates/s")
        if p99_ms(reads.latencies_s) > MOST_P99 * quiet_ms:
            said.append(f"{name}: p99 is over {MOST_P99:g} times the {quiet_ms:.1f} ms of before")
    for line in said:
        print(line, flush=True)
    return not said


def main() -> int:
    """Measures, writes the result; fails on what must not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    sizes = SMOKE if parser.parse_args().smoke else FULL
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    broker = start_broker(folder / "broker")
    try:
        steps = run(broker, folder / "run", sizes)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if sizes is FULL:
        settings = {"keys": sizes.keys, "writes_per_second": sizes.writes, "reads_per_second": sizes.reads, "nodes": 3}
        print(write_results("changeover", measures(steps), settings))
        return 0 if holds(steps) and keeps_up(steps) else 1
    return 0 if holds(steps) else 1


if __name__ == "__main__":
    sys.exit(main())
