"""Random queries with random options against nodes that are stopped and woken: no answer is older than it may be."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes
from harness.sigstop_pause import sigstop_pause
from storekeeper.protocol.position_token import PositionToken
from tests.faults.freshness_oracle import Oracle, Seen, Tally

pytestmark = pytest.mark.broker

PARTITIONS = 4
KEYS = [f"customer-{number}" for number in range(60)]
ASKERS = 4
WRITE_EVERY_S = 0.002


class Asker(threading.Thread):
    """Asks nodes in turn, with options of its own, and has each answer judged."""

    def __init__(self, nodes: list[NodeProcess], oracle: Oracle, queries: int, seed: int) -> None:
        super().__init__()
        self.tally = Tally()
        self._oracle = oracle
        self._queries = queries
        self._random = random.Random(seed)
        self._connections = [http.client.HTTPConnection(urlsplit(node.address).netloc, timeout=20) for node in nodes]
        self._position: str | None = None
        self._seen: list[Seen] = []

    def run(self) -> None:
        for _ in range(self._queries):
            self._ask()
        for connection in self._connections:
            connection.close()

    def judge(self) -> Tally:
        """To be called when every write was acknowledged: one that wasn't yet may be in an answer."""
        for seen in self._seen:
            self.tally.violations += self._oracle.violations(seen)
        return self.tally

    def _ask(self) -> None:
        key = self._random.choice(KEYS)
        options = self._options(key)
        connection = self._random.choice(self._connections)
        sent_s = time.monotonic()
        query = f"?{urlencode(options)}" if options else ""
        connection.request("GET", f"/state/keyvalue/rewards/{key}{query}")
        answer = connection.getresponse()
        body = json.loads(answer.read())
        headers = {name.lower(): value for name, value in answer.getheaders()}
        if answer.status == 503 and body["type"].endswith(":too-stale"):
            assert body["freshest"]["node"] in {"a", "b"}
            self.tally.refused += 1
        elif answer.status in {200, 404} and "storekeeper-offset" in headers:
            self.tally.answered += 1
            number = body["value"]["n"] if answer.status == 200 else None
            self._position = headers["storekeeper-position"]
            if options.get("stale") == "no" and headers["storekeeper-role"] != "active":
                self.tally.violations.append(f"a {headers['storekeeper-role']} answered")
            self._seen.append(Seen(key, sent_s, options, number, headers))
        else:
            self.tally.failed.append(f"{answer.status} {body}")

    def _options(self, key: str) -> dict[str, str]:
        chance = self._random.random
        options: dict[str, str] = {}
        if chance() < 0.5:
            options["max_staleness_ms"] = str(self._random.choice([0, 1, 10, 50, 100, 200, 500, 1000]))
        if chance() < 0.3:
            options["max_lag"] = str(self._random.choice([0, 1, 5, 20, 100]))
        if chance() < 0.4:
            options["position"] = self._some_position(key)
        if chance() < 0.1:
            options["stale"] = "no"
        if chance() < 0.6:
            options["wait_ms"] = str(self._random.choice([5, 50, 200, 400]))
        return options

    def _some_position(self, key: str) -> str:
        write = self._oracle.last_write(key)
        if write is None or self._random.random() < 0.3:
            return self._position or PositionToken().encode()
        if self._random.random() < 0.5:
            return f"pos:0:{write.number}"
        return PositionToken.of_changelog(self._oracle.topic, write.partition, write.offset + 1).encode()


@contextmanager
def running(target: object) -> Iterator[None]:
    """Calls `target(stop)` in a thread until the block ends."""
    assert callable(target)
    stop = threading.Event()
    thread = threading.Thread(target=target, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_no_answer_is_older_than_required(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    queries = 10_000 if request.config.getoption("--long") else 1_200
    topic = f"freshness-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, PARTITIONS, COMPACTED)
    nodes = make_nodes(broker, tmp_path, f"rewards={topic}", replicas=1)
    oracle = Oracle(broker.bootstrap, topic, PARTITIONS)
    choose = random.Random(11)

    def keep_writing(stop: threading.Event) -> None:
        number = 0
        while not stop.wait(0.3 if choose.random() < 0.002 else WRITE_EVERY_S):
            oracle.write(choose.choice(KEYS), number)
            number += 1

    def stop_and_wake(stop: threading.Event) -> None:
        while not stop.wait(choose.uniform(0.2, 1.0)):
            node = choose.choice(nodes)
            with sigstop_pause(node.pid):
                stop.wait(choose.uniform(0.05, 0.6))

    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        askers = [Asker(nodes, oracle, queries // ASKERS, seed) for seed in range(ASKERS)]
        with running(keep_writing), running(stop_and_wake):
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
        oracle.settle()
    finally:
        for node in nodes:
            node.close()
    tallies = [asker.judge() for asker in askers]
    assert [violation for tally in tallies for violation in tally.violations] == []
    assert [failure for tally in tallies for failure in tally.failed] == []
    # It would be easy never to be stale by refusing everybody.
    assert sum(tally.answered for tally in tallies) > queries // 3
    assert sum(tally.refused for tally in tallies) > 0
