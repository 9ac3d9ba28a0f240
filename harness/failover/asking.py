"""`python -m harness.failover.asking`: asks a cluster without end through the client, and reports each answer.

A process of its own, so that neither the oracle nor the writers hold it up. It reads its `Task` as one line of JSON,
and writes one line for each query until its input ends.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import orjson

from harness.failover.nodes import STORE, WINDOWS
from storekeeper.client.client import StateClient
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.rows import Rows

T = TypeVar("T")

_PAGE_ROWS = 1000
_RANGE_ROWS = 40
_SHARES = (87.0, 10.0, 2.5, 0.5)
"""Of a hundred queries: points, windows, ranges, everything."""
_SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class Task:
    """Whom to ask for which keys, at most so often a second. `timeout_s` is that of a query."""

    addresses: Sequence[str]
    keys: Sequence[str]
    window_keys: Sequence[str]
    threads: int
    per_second: float
    timeout_s: float
    seed: int


@dataclass(slots=True)
class Answer:
    """The answer to one query.

    Attributes:
        kind: of the query.
        asked_at_s: when, on the monotonic clock, which all processes share.
        took_s: how long the answer took.
        wanted: the keys that the answer has to hold; None: all that there are.
        found: numbers by key.
        staleness_ms: how stale the answer says that it may be; None: it doesn't say.
        failure: what the client raised, if it did.
    """

    kind: str
    asked_at_s: float
    took_s: float = 0.0
    wanted: Sequence[str] | None = ()
    found: Sequence[tuple[str, int | None]] = ()
    staleness_ms: int | None = None
    failure: str | None = None


class Asking:
    """Sends one query after the other, from any number of threads."""

    def __init__(self, task: Task, client: StateClient) -> None:
        self._task = task
        self._rows = client.key_value(STORE)
        self._windows = client.window(WINDOWS)
        self._kinds = (self._point, self._window, self._range, self._all)

    def ask(self, chosen: random.Random) -> Answer:
        """Any query."""
        ask = chosen.choices(self._kinds, _SHARES)[0]
        answer = Answer(ask.__name__.strip("_"), time.monotonic())
        try:
            ask(chosen, answer)
        except Exception as error:  # whatever it is: a client's user would have got it
            answer.failure = f"{type(error).__name__}: {error}"
        answer.took_s = time.monotonic() - answer.asked_at_s
        return answer

    def _point(self, chosen: random.Random, answer: Answer) -> None:
        key = chosen.choice(self._task.keys)
        reading = self._rows.get(key)
        answer.wanted, answer.staleness_ms = [key], reading.staleness_ms
        answer.found = [(key, None if reading.value is None else reading.value["n"])]

    def _window(self, chosen: random.Random, answer: Answer) -> None:
        key = chosen.choice(self._task.window_keys)
        answer.wanted = [key]
        answer.found = [(key, row.value["n"]) for row in _read(self._windows.fetch(key, 0, 0), answer)]

    def _range(self, chosen: random.Random, answer: Answer) -> None:
        first = chosen.randrange(len(self._task.keys))
        answer.wanted = wanted = self._task.keys[first : first + _RANGE_ROWS]
        rows = _read(self._rows.range(wanted[0], wanted[-1]), answer)
        answer.found = [(str(row.key), row.value["n"]) for row in rows]

    def _all(self, _: random.Random, answer: Answer) -> None:
        answer.wanted = None
        answer.found = [(str(row.key), row.value["n"]) for row in _read(self._rows.all(page_rows=_PAGE_ROWS), answer)]


def _read(rows: Rows[T], answer: Answer) -> list[T]:
    """All rows. As stale as the stalest page says that it is; if one doesn't say it, unknown."""
    pages = list(rows.pages())
    staleness = [page.staleness_ms for page in pages]
    answer.staleness_ms = None if None in staleness else max(found for found in staleness if found is not None)
    return [row for page in pages for row in page.value.rows]


def main() -> None:
    """Asks until the input ends."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    task = Task(**orjson.loads(sys.stdin.readline()))
    stop, writing = threading.Event(), threading.Lock()
    out = sys.stdout.buffer

    def run(seed: int, asking: Asking) -> None:
        chosen, pause_s = random.Random(seed), task.threads / task.per_second
        due_s = time.monotonic()
        while not stop.is_set():
            answer = asking.ask(chosen)
            with writing:
                out.write(orjson.dumps(answer) + b"\n")
                out.flush()
            due_s = max(due_s + pause_s, answer.asked_at_s)
            stop.wait(max(0.0, due_s - time.monotonic()))

    with StateClient(task.addresses, limits=ClientLimits(timeout_s=task.timeout_s)) as client:
        asking = Asking(task, client)
        threads = [threading.Thread(target=run, args=(task.seed + n, asking)) for n in range(task.threads)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stop.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
