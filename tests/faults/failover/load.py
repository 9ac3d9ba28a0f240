"""Questions without end: through the client, whose every answer is judged, and bare, to see refusals."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Self
from urllib.parse import urlsplit

from state.client import ClientLimits, StateClient
from tests.faults.failover.nodes import STORE, WINDOWS
from tests.faults.failover.oracle import Oracle

_PAGE_ROWS = 1000
_BARE_PAUSE_S = 0.02
_BARE_ROWS = 40
_SHARES = (87.0, 10.0, 2.5, 0.5)
"""Of a hundred questions: points, windows, ranges, everything."""


@dataclass(slots=True)
class Outcome:
    """What came of the questions.

    Attributes:
        asked: how many were answered.
        wrong: why answers can't be right.
        failed: what the client raised.
        latencies_s: (when asked, key, how long) of each point query.
        kinds: how many were asked of each kind.
    """

    asked: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    latencies_s: list[tuple[float, str, float]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


class ClientLoad:
    """Threads that ask one `StateClient` for points, windows, ranges and everything, at most so often a second."""

    def __init__(
        self,
        addresses: Sequence[str],
        oracle: Oracle,
        windows: Oracle,
        *,
        threads: int = 4,
        per_second: float = 200,
        limits: ClientLimits | None = None,
    ) -> None:
        self.outcome = Outcome()
        self._client = StateClient(addresses, limits=limits)
        self._rows = self._client.key_value(STORE)
        self._window_rows = self._client.window(WINDOWS)
        self._oracle = oracle
        self._windows = windows
        self._pause_s = threads / per_second
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _run(self, seed: int) -> None:
        chosen = random.Random(seed)
        due_s = time.monotonic()
        while not self._stop.is_set():
            asked_at_s = time.monotonic()
            ask = chosen.choices((self._point, self._window, self._range, self._all), _SHARES)[0]
            try:
                ask(chosen, asked_at_s)
                self.outcome.asked += 1
                self.outcome.kinds[ask.__name__.strip("_")] += 1
            except Exception as error:  # whatever it is: a client's user would have got it
                self.outcome.failed.append(f"{ask.__name__}: {type(error).__name__}: {error}")
            due_s = max(due_s + self._pause_s, asked_at_s)
            self._stop.wait(max(0.0, due_s - time.monotonic()))

    def _point(self, chosen: random.Random, asked_at_s: float) -> None:
        key = chosen.choice(self._oracle.keys)
        found = self._rows.get(key)
        self.outcome.latencies_s.append((asked_at_s, key, time.monotonic() - asked_at_s))
        number = None if found.value is None else found.value["n"]
        self._note(self._oracle.wrong(key, number, asked_at_s, found.staleness_ms))

    def _window(self, chosen: random.Random, asked_at_s: float) -> None:
        key = chosen.choice(self._windows.keys)
        found = [row.value["n"] for row in self._window_rows.fetch(key, 0, 0)]
        self._note(self._windows.wrong(key, found[0] if found else None, asked_at_s))

    def _range(self, chosen: random.Random, asked_at_s: float) -> None:
        keys = self._oracle.keys
        first = chosen.randrange(len(keys))
        wanted = keys[first : first + 40]
        self._judge_rows(wanted, dict(self._found(self._rows.range(wanted[0], wanted[-1]))), asked_at_s)

    def _all(self, _: random.Random, asked_at_s: float) -> None:
        found = dict(self._found(self._rows.all(page_rows=_PAGE_ROWS)))
        self._judge_rows(self._oracle.keys, found, asked_at_s)

    @staticmethod
    def _found(rows: object) -> list[tuple[str, int]]:
        return [(row.key, row.value["n"]) for row in rows]  # type: ignore[attr-defined]

    def _judge_rows(self, wanted: Sequence[str], found: dict[str, int], asked_at_s: float) -> None:
        for key in wanted:
            self._note(self._oracle.wrong(key, found.get(key), asked_at_s))
        if len(found) != len(wanted):
            self.outcome.wrong.append(f"{len(found)} rows where there are {len(wanted)}")

    def _note(self, reason: str | None) -> None:
        if reason is not None:
            self.outcome.wrong.append(reason)


class BareLoad:
    """Asks the nodes that survive, in turn, with nothing but HTTP, and notes for how long it is refused.

    Now and then it asks for a range and allows it to be partial: the answer must say so if it is.

    Attributes:
        longest_refusal_s: from the first refused question to the first that was answered behind it.
        refusals: what was said, or that nothing was.
        wrong: why answers can't be right.
        asked: questions.
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
        self._thread = threading.Thread(target=self._run)
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._refused_since_s: float | None = None
        self.longest_refusal_s = 0.0
        self.refusals: list[str] = []
        self.wrong: list[str] = []
        self.asked = self.answered = self.incomplete = 0

    def forget(self) -> None:
        """Begins to count anew."""
        self.longest_refusal_s, self.refusals, self.wrong = 0.0, [], []
        self.asked = self.answered = self.incomplete = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
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
        told = answer.headers.get("storekeeper-staleness-ms")
        for key, number in found.items():
            reason = self._oracle.wrong(key, number, asked_at_s, None if told is None else int(told))
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
