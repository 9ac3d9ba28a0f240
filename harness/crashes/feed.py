"""Invoices that keep coming while apps die."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from itertools import count

from confluent_kafka import Producer

from harness.crashes.oracle import BY_HAND
from harness.sales import bad_sales, good_sales


class Feed(threading.Thread):
    """Publishes invoices, good and bad, in small steps until `finish`."""

    def __init__(self, bootstrap: str, seed: int, *, per_step: int = 12, step_s: float = 0.5) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",
                "enable.idempotence": "true",
                "reconnect.backoff.max.ms": 300,
                "message.timeout.ms": 300_000,
                "log_level": 0,
            }
        )
        self._seed = seed
        self._per_step = per_step
        self._step_s = step_s
        self._finished = threading.Event()
        self.published: list[tuple[bytes | None, bytes | None]] = []
        self._steps = count()

    def run(self) -> None:
        """Writes invoices and poison until `finish`."""
        rng = random.Random(self._seed)
        poison = bad_sales(16)
        while not self._finished.is_set():
            # Every step has numbers of its own, so each invoice is there once.
            records: list[tuple[bytes | None, bytes | None]] = list(good_sales(self._per_step, seed=next(self._steps)))
            records += rng.choices(poison, k=2)
            rng.shuffle(records)
            self._publish(records)
            self._producer.produce("hadoop-sink", value=b"{}", key=BY_HAND)
            self._producer.poll(0)
            self._finished.wait(self._step_s)
        assert self._producer.flush(120) == 0

    def finish(self) -> None:
        """Returns once all of it is at the broker."""
        self._finished.set()
        self.join()

    def add(self, number: int) -> None:
        """Publishes more good invoices, after `finish`."""
        self._publish(good_sales(number, seed=next(self._steps)))
        assert self._producer.flush(120) == 0

    def _publish(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            self._producer.produce("pos", value=value, key=key)
            self.published.append((key, value))
