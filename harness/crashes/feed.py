"""Records that keep coming while apps die, with a little poison among those of every topic."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import cycle

from confluent_kafka import Producer

from harness.crashes.careless import TOPIC as ORDERS
from harness.crashes.inputs import LINE_ITEMS, POS, SYSTEMS, poison, sales, system_steps
from harness.crashes.orders import Orders
from harness.poison import Poison

BAD_SHARE = 0.01
_FEWEST = 0.15
"""Poison for each step and topic: more than a hundredth where a topic has few records, so that each kind comes."""

_SPARE_MINUTES = 15
"""The last lives may take long."""


class Feed(threading.Thread):
    """Publishes good and bad records in small steps until `finish`.

    Attributes:
        published: the records, by topic.
    """

    def __init__(self, bootstrap: str, seed: int, minutes: float, *, per_step: int = 20, step_s: float = 0.5) -> None:
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
        self._rng = random.Random(seed)
        self._per_step = per_step
        self._step_s = step_s
        self._finished = threading.Event()
        self._sales = sales(seed * 1_000_000, per_step)
        self._systems = system_steps(round(minutes) + _SPARE_MINUTES, per_step // 2)
        self._orders = Orders(seed)
        self._poison = {topic: cycle(poison(topic).values()) for topic in (POS, LINE_ITEMS, *SYSTEMS)}
        self.published: dict[str, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)

    def run(self) -> None:
        """Writes records and poison until `finish`."""
        while not self._finished.is_set():
            records = [*next(self._sales), *next(self._systems)]
            good = Counter(topic for topic, _ in records)
            good[LINE_ITEMS] = 2 * good[POS]  # the app `pos` writes about as many
            for topic, bad in self._poison.items():
                share = max(good[topic] * BAD_SHARE, _FEWEST)
                records += [(topic, next(bad))] if self._rng.random() < share else []
            self._rng.shuffle(records)
            self._publish(records)
            self._publish((ORDERS, order) for order in self._orders.take(self._per_step // 2))
            self._producer.poll(0)
            self._finished.wait(self._step_s)
        assert self._producer.flush(120) == 0

    def finish(self) -> None:
        """Returns once all of it is at the broker."""
        self._finished.set()
        self.join()

    def add(self, steps: int, *, last: bool) -> None:
        """Publishes more good records, after `finish`; the last ones with orders that close all windows."""
        for _ in range(steps):
            self._publish([*next(self._sales), *next(self._systems)])
        self._publish((ORDERS, order) for order in (self._orders.last() if last else []))
        assert self._producer.flush(120) == 0

    def _publish(self, records: Iterable[tuple[str, Poison]]) -> None:
        for topic, (key, value, timestamp_ms) in records:
            self._producer.produce(topic, value=value, key=key, timestamp=timestamp_ms or 0)
            self.published[topic].append((key, value))
