"""A leaderboard while its scores change: `make bench-leaderboard`.

100,000 players, 2,000 score changes a second through a real broker, one node with a ranked store. Requests come at an
even pace, whether or not earlier ones are answered: a request's latency counts from the moment it was due, so a pause
of the node shows in every request that it held up. When the writer rests, the top 100 and the places of some players
must be those of the oracle, which keeps every score itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka import Producer

from benchmarks.results import Measure, write_results
from harness.broker import start_broker
from harness.node_process import NodeProcess, make_nodes
from harness.waiting import eventually
from storekeeper.changelog.headers import ChangelogHeaders

TOPIC = "leaderboard-benchmark"
STORE = "players"
PARTITIONS = 4
GOAL_MS = 8.0
HEADERS = ChangelogHeaders(1, 1, 1, {"scores": {0: (0, 1)}}).encode()
_STEP_S = 0.01
_SWITCH_INTERVAL_S = 0.0005
_COMPARED = 50


@dataclass(frozen=True, slots=True)
class Sizes:
    """Players, score changes and requests a second, and how many rounds of how many seconds."""

    players: int
    updates: int
    requests: int
    rounds: int
    seconds: int
    connections: int = 16


class Scores(threading.Thread):
    """Writes every player's score, then changes random ones until stopped. It knows each player's score."""

    def __init__(self, bootstrap: str, sizes: Sizes) -> None:
        super().__init__()
        self.scores: dict[str, int] = {}
        self._sizes = sizes
        self._random = random.Random(5)
        self._stopped = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 2, "partitioner": "murmur2_random", "log_level": 0}
        )

    def write_all(self) -> None:
        """One score for each player."""
        for number in range(self._sizes.players):
            self._write(f"p{number:06d}")
        assert self._producer.flush(60) == 0

    def run(self) -> None:
        """Changes scores at an even pace."""
        began_s, written = time.monotonic(), 0
        players = list(self.scores)
        while not self._stopped.wait(_STEP_S):
            due = int((time.monotonic() - began_s) * self._sizes.updates)
            for _ in range(due - written):
                self._write(self._random.choice(players))
            written = due

    def stop(self) -> None:
        """Ends, with everything at the broker."""
        self._stopped.set()
        self.join()
        assert self._producer.flush(60) == 0

    def _write(self, player: str) -> None:
        score = self.scores[player] = self._random.randrange(1_000_000)
        value = json.dumps({"Player": player, "HighScore": score, "Games": score % 100}).encode()
        while True:
            try:
                self._producer.produce(TOPIC, value, player.encode(), headers=HEADERS)
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one round: latencies by kind of request, and answers other than 200."""

    latencies_s: Mapping[str, list[float]]
    failed: list[str]

    def p99_ms(self, kind: str) -> float:
        """The 99th percentile."""
        ordered = sorted(self.latencies_s[kind])
        return ordered[len(ordered) * 99 // 100] * 1000


class Asker:
    """Asks for a row, the top 100 and a place in turns, at an even pace."""

    def __init__(self, address: str, players: Sequence[str], sizes: Sizes) -> None:
        place = urlsplit(address)
        self._host, self._port = place.hostname, place.port
        self._players = players
        self._sizes = sizes
        self._random = random.Random(9)

    async def ask(self) -> Asked:
        """One round."""
        found = Asked({"get": [], "top": [], "rank": []}, [])
        kinds = list(found.latencies_s)
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        for _ in range(self._sizes.connections):
            free.put_nowait(await asyncio.open_connection(self._host, self._port))
        began_s = time.perf_counter() + _STEP_S
        async with asyncio.TaskGroup() as group:
            for number in range(self._sizes.requests * self._sizes.seconds):
                due_s = began_s + number / self._sizes.requests
                await asyncio.sleep(max(0, due_s - time.perf_counter()))
                group.create_task(self._one(kinds[number % len(kinds)], due_s, free, found))
        while not free.empty():
            free.get_nowait()[1].close()
        return found

    async def _one(
        self,
        kind: str,
        due_s: float,
        free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]],
        found: Asked,
    ) -> None:
        player = self._random.choice(self._players)
        path = {
            "get": f"/state/keyvalue/{STORE}/{player}",
            "top": f"/state/ranked/{STORE}/top?limit=100",
            "rank": f"/state/ranked/{STORE}/rank/{player}",
        }[kind]
        reader, writer = await free.get()
        writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        found.latencies_s[kind].append(time.perf_counter() - due_s)
        free.put_nowait((reader, writer))
        if not head.startswith(b"HTTP/1.1 200"):
            found.failed.append(f"{path}: {body[:200]!r}")


def differences(node: NodeProcess, scores: Mapping[str, int]) -> list[str]:
    """Where the node's ranking isn't the oracle's."""
    ordered = sorted(scores, key=lambda player: (-scores[player], player))
    place = {score: rank for rank, score in reversed(list(enumerate(sorted(scores.values(), reverse=True), 1)))}
    top = node.get(f"/state/ranked/{STORE}/top?limit=100").json()
    found: list[str] = []
    answered = [(row["rank"], row["key"], row["score"]) for row in top]
    if answered != [(place[scores[player]], player, scores[player]) for player in ordered[:100]]:
        found.append(f"the top 100 differs: {answered[:3]}")
    for player in random.Random(3).sample(ordered, _COMPARED):
        rank = node.get(f"/state/ranked/{STORE}/rank/{player}").json()["rank"]
        if rank != place[scores[player]]:
            found.append(f"{player} is said to be at {rank}, not {place[scores[player]]}")
    return found


def run(sizes: Sizes, folder: Path) -> tuple[list[Asked], list[str]]:
    """Starts everything, measures, compares, stops everything."""
    broker = start_broker(folder / "broker")
    try:
        broker.create_topic(TOPIC, PARTITIONS, {"cleanup.policy": "compact"})
        scores = Scores(broker.bootstrap, sizes)
        scores.write_all()
        (node,) = make_nodes(broker, folder / "run", f"{STORE}={TOPIC}:ranked:HighScore", names="a", replicas=0)
        try:
            node.start()
            node.wait_ready()
            scores.start()
            try:
                asker = Asker(node.address, list(scores.scores), sizes)
                asyncio.run(asker.ask())  # warms
                rounds = [asyncio.run(asker.ask()) for _ in range(sizes.rounds)]
            finally:
                scores.stop()
            eventually(lambda: _is_at_end(node), 30, "the node has caught up")
            return rounds, differences(node, scores.scores)
        finally:
            node.close()
    finally:
        broker.stop()


def _is_at_end(node: NodeProcess) -> bool:
    """Whether the node holds everything that was written before it was asked."""
    path = f"/state/ranked/{STORE}/top?limit=1&max_staleness_ms=0&wait_ms=5000"
    return node.status(path) == 200


def measures(rounds: Sequence[Asked]) -> list[Measure]:
    """The 99th percentile of each kind of request."""
    names = {"get": "a player's row: p99", "top": "top 100: p99", "rank": "a player's place: p99"}
    return [
        Measure(name, "ms", [found.p99_ms(kind) for found in rounds], higher_is_better=False)
        for kind, name in names.items()
    ]


def main() -> int:
    """Measures, writes the result; fails if a request failed or the ranking was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    smoke: bool = parser.parse_args().smoke
    # The writer shares this process: an answer that is there must not wait for it.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    sizes = Sizes(2000, 200, 60, 1, 2) if smoke else Sizes(100_000, 2000, 400, 9, 8)
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    try:
        rounds, wrong = run(sizes, folder)
    finally:
        shutil.rmtree(folder)
    found = measures(rounds)
    for measure in found:
        print(measure.as_dict())
    problems = [*(failure for one in rounds for failure in one.failed), *wrong]
    print("\n".join(problems[:20]) or f"all right; the goal of every p99 is below {GOAL_MS} ms")
    if not smoke:
        print(write_results("leaderboard", found, asdict(sizes)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
