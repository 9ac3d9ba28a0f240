"""What an answer may be: each key counts up, and the oracle knows when each number was sent and when acknowledged."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from harness.meanwhile import running
from storekeeper.changelog.partitioner import partition_for
from storekeeper.serdes.keys.windows import window_row_key

PARTITIONS = 12
_STEP_S = 0.05
"""Changelogs are written in small batches, not record by record."""
_SCHEMA = {"schema-version": b"1", "generation": b"1", "batch-id": b"1"}


@dataclass(slots=True)
class _History:
    """One key's numbers. `acked_at_s[i]` is when `acked[i]` was known to be written."""

    sent: int = -1
    acked: list[int] = field(default_factory=list)
    acked_at_s: list[float] = field(default_factory=list)


class Oracle:
    """Judges answers. Safe from any thread.

    An answer that says how stale it may be is held to that. Beyond it, none may be older than `tolerance_s`.

    Args:
        keys: all keys that there are.
        tolerance_s: an answer may miss what was acknowledged within so long before the query.
    """

    def __init__(self, keys: Sequence[str], tolerance_s: float) -> None:
        self.keys = list(keys)
        self._tolerance_s = tolerance_s
        self._histories = {key: _History() for key in keys}
        self._lock = threading.Lock()

    def next_number(self, key: str) -> int:
        """The number to be written next."""
        with self._lock:
            history = self._histories[key]
            history.sent += 1
            return history.sent

    def acknowledged(self, key: str, number: int, at_s: float | None = None) -> None:
        """The broker has it, as is known at a moment on the monotonic clock; None: now."""
        with self._lock:
            history = self._histories[key]
            if not history.acked or number > history.acked[-1]:
                history.acked.append(number)
                history.acked_at_s.append(time.monotonic() if at_s is None else at_s)

    def wrong(
        self, key: str, number: int | None, asked_at_s: float, stated_staleness_ms: int | None = None
    ) -> str | None:
        """Why an answer can't be right, or None if it may be.

        Args:
            key: what was asked for.
            number: what was found; None: there is said to be no such key.
            asked_at_s: when, on the monotonic clock.
            stated_staleness_ms: how stale the answer says that it may be; None: it doesn't say.
        """
        stated_s = float("inf") if stated_staleness_ms is None else stated_staleness_ms / 1000
        known_at_s = asked_at_s - min(self._tolerance_s, stated_s)
        with self._lock:
            history = self._histories[key]
            place = bisect_right(history.acked_at_s, known_at_s)
            least = history.acked[place - 1] if place else -1
            sent = history.sent
        found = -1 if number is None else number
        if found > sent:
            return f"{key}: {found} was never written, only up to {sent}"
        if found < least:
            late_s = asked_at_s - history.acked_at_s[place - 1]
            return f"{key}: {found} where {least} was acknowledged {late_s:.1f} s before, {stated_s} s stale"
        return None

    def last(self, key: str) -> int:
        """The number acknowledged last."""
        with self._lock:
            return self._histories[key].acked[-1]


class Writer:
    """Counts keys up at a steady rate until stopped. A context manager.

    Args:
        bootstrap: the broker.
        topic: the changelog, of `PARTITIONS` partitions.
        oracle: knows the keys, and notes all that is written.
        per_second: how many records.
        window: the keys are those of windows that begin at 0.
    """

    def __init__(self, bootstrap: str, topic: str, oracle: Oracle, per_second: int, *, window: bool = False) -> None:
        self._topic = topic
        self._oracle = oracle
        self._window = window
        self._per_second = per_second
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all"})
        self._writing = ExitStack()
        self.written = 0

    def write_all(self) -> None:
        """Writes every key once and waits until the broker has them."""
        for key in self._oracle.keys:
            self._write(key)
        assert self._producer.flush(60) == 0

    def __enter__(self) -> Self:
        self._writing.enter_context(running(self._run, self._stop))
        return self

    def __exit__(self, *_: object) -> None:
        self._writing.close()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        keys, place = self._oracle.keys, 0
        began_s, count = time.monotonic(), 0
        while not self._stop.wait(_STEP_S):
            due = int((time.monotonic() - began_s) * self._per_second)
            for _ in range(due - count):
                self._write(keys[place])
                place = (place + 7919) % len(keys)
            count = due
            self._producer.poll(0)

    def _write(self, key: str) -> None:
        number = self._oracle.next_number(key)
        self.written += 1

        def delivered(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            self._oracle.acknowledged(key, number)

        headers = [*_SCHEMA.items(), ("source-position", b'{"in":{"0":[0,1]}}')]
        self._producer.produce(
            self._topic,
            key=window_row_key(key.encode(), 0) if self._window else key.encode(),
            value=b'{"n":%d}' % number,
            partition=partition_for(key.encode(), PARTITIONS),
            headers=headers,
            on_delivery=delivered,
        )
