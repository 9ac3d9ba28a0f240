"""Queries without end: through the client, whose every answer is judged, and bare, to see refusals."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from email.message import Message
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from harness.failover import asking
from harness.failover.asking import Answer, Task
from harness.failover.nodes import STORE
from harness.failover.oracle import Oracle
from harness.meanwhile import running
from storekeeper.client.exchange import ClientLimits

_BARE_PAUSE_S = 0.02
_BARE_ROWS = 40


@dataclass(slots=True)
class Outcome:
    """What came of the queries.

    Attributes:
        asked: how many were answered.
        wrong: why answers can't be right.
        failed: what the client raised.
        latencies_s: (when asked, key, how long) of each point query.
        kinds: how many were asked of each kind.
        stalest_ms: the largest staleness that an answer stated.
        unstated: answers that stated no staleness.
    """

    asked: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    latencies_s: list[tuple[float, str, float]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    stalest_ms: int = 0
    unstated: int = 0


class ClientLoad:
    """Processes that ask for points, windows, ranges and everything through `StateClient`, at most so often a second.

    Their answers are judged here.

    Attributes:
        outcome: of all queries since it was put here.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        oracle: Oracle,
        windows: Oracle,
        *,
        processes: int = 1,
        threads: int = 4,
        per_second: float = 200,
        timeout_s: float = ClientLimits().timeout_s,
    ) -> None:
        self.outcome = Outcome()
        self._oracle = oracle
        self._windows = windows
        self._tasks = [
            Task(addresses, oracle.keys, windows.keys, threads, per_second / processes, timeout_s, number * threads)
            for number in range(processes)
        ]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for task in self._tasks:
            command = [sys.executable, "-m", asking.__name__]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(orjson.dumps(asdict(task)) + b"\n")
            process.stdin.flush()
            reader = threading.Thread(target=self._read, args=(process,))
            reader.start()
            self._processes.append(process)
            self._readers.append(reader)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, reader in zip(self._processes, self._readers, strict=True):
            reader.join()
            process.wait()

    @property
    def pids(self) -> list[int]:
        """Of the processes that ask."""
        return [process.pid for process in self._processes]

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._judge(Answer(**orjson.loads(line)), self.outcome)

    def _judge(self, answer: Answer, outcome: Outcome) -> None:
        if answer.failure is not None:
            outcome.failed.append(f"{answer.kind}: {answer.failure}")
            return
        oracle = self._windows if answer.kind == "window" else self._oracle
        wanted: Sequence[str] = oracle.keys if answer.wanted is None else answer.wanted
        found = dict(answer.found)
        if answer.kind == "point":
            outcome.latencies_s.append((answer.asked_at_s, wanted[0], answer.took_s))
        for key in wanted:
            reason = oracle.wrong(key, found.get(key), answer.asked_at_s, answer.staleness_ms)
            if reason is not None:
                outcome.wrong.append(reason)
        if len(answer.found) != len(wanted):
            outcome.wrong.append(f"{len(answer.found)} rows where there are {len(wanted)}")
        if answer.staleness_ms is None:
            outcome.unstated += 1
        else:
            outcome.stalest_ms = max(outcome.stalest_ms, answer.staleness_ms)
        outcome.asked += 1
        outcome.kinds[answer.kind] += 1


class BareLoad:
    """Asks the nodes that survive, in turn, with nothing but HTTP, and notes for how long it is refused.

    Now and then it asks for a range and allows it to be partial: the answer must say so if it is.

    Attributes:
        longest_refusal_s: from the first refused query to the first that was answered behind it.
        refusals: what was said, or that nothing was.
        wrong: why answers can't be right.
        asked: queries.
        answered: those that were not refused.
        incomplete: ranges that said that they lack something.

    Args:
        survivors: the addresses to ask, as of now.
        oracle: knows the keys, and judges.
    """

    def __init__(self, survivors: Callable[[], Sequence[str]], oracle: Oracle) -> None:
        self._survivors = survivors
        self._oracle = oracle
        self._stop = threading.Event()
        self._asking = ExitStack()
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._refused_since_s: float | None = None
        self.longest_refusal_s = 0.0
        self.refusals: list[str] = []
        self.wrong: list[str] = []
        self.asked = self.answered = self.incomplete = 0

    def forget(self) -> None:
        """Begins to count from 0 again."""
        self.longest_refusal_s, self.refusals, self.wrong = 0.0, [], []
        self.asked = self.answered = self.incomplete = 0

    def __enter__(self) -> Self:
        self._asking.enter_context(running(self._run, self._stop))
        return self

    def __exit__(self, *_: object) -> None:
        self._asking.close()
        for connection in self._connections.values():
            connection.close()

    def _run(self) -> None:
        chosen = random.Random(99)
        while not self._stop.wait(_BARE_PAUSE_S):
            address = chosen.choice(list(self._survivors()))
            first = chosen.randrange(len(self._oracle.keys))
            asked_at_s = time.monotonic()
            ask = self._ask_range if self.asked % 20 == 19 else self._ask
            refusal = ask(address, first, asked_at_s)
            self.asked += 1
            if refusal is None:
                self.answered += 1
                self._note_refusal_until(time.monotonic())
                self._refused_since_s = None
                continue
            if address not in self._survivors():
                continue  # it was ended while it was asked
            self.refusals.append(refusal)
            self._refused_since_s = self._refused_since_s or asked_at_s
            self._note_refusal_until(time.monotonic())

    def _note_refusal_until(self, now_s: float) -> None:
        if self._refused_since_s is not None:
            self.longest_refusal_s = max(self.longest_refusal_s, now_s - self._refused_since_s)

    def _ask(self, address: str, place: int, asked_at_s: float) -> str | None:
        key = self._oracle.keys[place]
        answer = self._get(address, f"/state/keyvalue/{STORE}/{key}")
        if isinstance(answer, str):
            return answer
        self._judge(address, answer, {key: answer.json["value"]["n"] if answer.status == 200 else None}, asked_at_s)
        return None

    def _ask_range(self, address: str, place: int, asked_at_s: float) -> str | None:
        keys = self._oracle.keys[place : place + _BARE_ROWS]
        path = f"/state/keyvalues/{STORE}/range/{keys[0]}/{keys[-1]}?partial=ok&limit={_BARE_ROWS}"
        answer = self._get(address, path)
        if isinstance(answer, str):
            return answer
        found: dict[str, int | None] = {row["key"]: row["value"]["n"] for row in answer.json}
        if answer.headers.get("storekeeper-complete") == "true":
            found = {**dict.fromkeys(keys), **found}
        else:
            self.incomplete += 1
        self._judge(address, answer, found, asked_at_s)
        return None

    def _judge(self, address: str, answer: _Bare, found: Mapping[str, int | None], asked_at_s: float) -> None:
        stated = answer.headers.get("storekeeper-staleness-ms")
        for key, number in found.items():
            reason = self._oracle.wrong(key, number, asked_at_s, None if stated is None else int(stated))
            if reason is not None:
                self.wrong.append(f"{address}, served by {answer.headers.get('storekeeper-served-by')}: {reason}")

    def _get(self, address: str, path: str) -> _Bare | str:
        """The answer, or why there is none."""
        connection = self._connections.get(address)
        if connection is None:
            port = urlsplit(address).port
            connection = self._connections[address] = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return f"{address}: {type(error).__name__}"
        if answer.status not in {200, 404}:
            return f"{address}: {answer.status} {body[:300]!r}"
        return _Bare(answer.status, answer.headers, json.loads(body))


@dataclass(frozen=True, slots=True)
class _Bare:
    """An answer."""

    status: int
    headers: Message
    json: Any
