"""Invoices and orders that keep coming while apps die, with a little poison among them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from itertools import count

from confluent_kafka import Producer

from harness.crashes.careless import TOPIC as ORDERS
from harness.crashes.oracle import BY_HAND
from harness.crashes.orders import Orders
from harness.poison import Poison, endless_poison
from harness.sales import good_sales

BAD_SHARE = 0.01


class Feed(threading.Thread):
    """Publishes invoices and orders, good and bad, in small steps until `finish`.

    Attributes:
        published: the invoices.
        ordered: the orders.
    """

    def __init__(self, bootstrap: str, seed: int, *, per_step: int = 20, step_s: float = 0.5) -> None:
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
        self.ordered: list[tuple[bytes | None, bytes | None]] = []
        self._orders = Orders(seed)
        self._steps = count()

    def run(self) -> None:
        """Writes invoices, orders and poison until `finish`."""
        rng, poison = random.Random(self._seed), endless_poison()
        while not self._finished.is_set():
            # Every step has numbers of its own, so each invoice is there once.
            sales = self._sales(self._per_step)
            sales += [next(poison) for _ in range(self._per_step) if rng.random() < BAD_SHARE]
            rng.shuffle(sales)
            self._publish("pos", sales, self.published)
            self._publish(ORDERS, self._orders.take(self._per_step // 2), self.ordered)
            self._producer.produce("hadoop-sink", value=b"{}", key=BY_HAND)
            self._producer.poll(0)
            self._finished.wait(self._step_s)
        assert self._producer.flush(120) == 0

    def finish(self) -> None:
        """Returns once all of it is at the broker."""
        self._finished.set()
        self.join()

    def add(self, number: int, *, last: bool) -> None:
        """Publishes more good invoices, after `finish`; the last ones with orders that close all windows."""
        self._publish("pos", self._sales(number), self.published)
        self._publish(ORDERS, self._orders.last() if last else [], self.ordered)
        assert self._producer.flush(120) == 0

    def _sales(self, number: int) -> list[Poison]:
        return [Poison(*record) for record in good_sales(number, seed=next(self._steps))]

    def _publish(self, topic: str, records: Iterable[Poison], into: list[tuple[bytes | None, bytes | None]]) -> None:
        for key, value, timestamp_ms in records:
            self._producer.produce(topic, value=value, key=key, timestamp=timestamp_ms or 0)
            into.append((key, value))
