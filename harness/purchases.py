"""Purchases of prime customers as invoices of a till, and what must become of them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

import orjson
from confluent_kafka import Producer

from harness.sales import sale
from spark_apps.records.money import PointsFactor

INVOICES = "pos"
_STORE = "STR1"
_FACTOR = PointsFactor(Decimal("0.02"))


@dataclass(frozen=True, slots=True)
class Sale:
    """What the oracle remembers of a purchase."""

    card: str
    time_ms: int
    earned_units: int


@dataclass(slots=True)
class Tills:
    """Writes purchases, a few at once or on and on in a thread, and remembers them all by invoice number."""

    bootstrap: str
    cards: int = 300
    per_second: int = 200
    sold: dict[str, Sale] = field(default_factory=dict)
    _rng: random.Random = field(default_factory=lambda: random.Random(7))
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _producer: Producer | None = None

    def sell(self, count: int) -> None:
        """Writes purchases; all are at the broker when it returns."""
        producer = self._own_producer()
        for _ in range(count):
            self._one(producer)
        assert producer.flush(60) == 0

    def open(self) -> None:
        """Goes on selling until `close`."""
        self._thread = threading.Thread(target=self._run, name="tills", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Sells no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def expected_values(self) -> dict[str, tuple[int, int, int]]:
        """By card: points in 1/10,000, number of purchases, time of the last."""
        found: dict[str, tuple[int, int, int]] = {}
        for one in list(self.sold.values()):  # the tills may be open
            units, count, last_ms = found.get(one.card, (0, 0, 0))
            found[one.card] = (units + one.earned_units, count + 1, max(last_ms, one.time_ms))
        return found

    def check_notifications(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        """Each purchase was notified once, and totals run on without a gap."""
        running: Counter[str] = Counter()
        seen: Counter[str] = Counter()
        for key, value in records:
            assert key is not None
            assert value is not None
            note = orjson.loads(value)
            seen[note["InvoiceNumber"]] += 1
            running[key.decode()] += round(note["EarnedLoyaltyPoints"] * 10_000)
            assert round(note["TotalLoyaltyPoints"] * 10_000) == running[key.decode()]
        assert [number for number, times in seen.items() if times > 1] == []
        assert seen.keys() == self.sold.keys()

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + 0.1, time.monotonic() - 1)
            self.sell(self.per_second // 10)

    def _one(self, producer: Producer) -> None:
        number = f"inv-{len(self.sold)}"
        card = f"46291852{self._rng.randrange(self.cards):04}"
        time_ms = 1_595_600_000_000 + len(self.sold)
        amount = self._rng.randrange(-2_000, 900_000) / 100
        invoice = sale(
            InvoiceNumber=number,
            StoreID=_STORE,
            CreatedTime=time_ms,
            CustomerType="PRIME",
            CustomerCardNo=card,
            TotalAmount=amount,
            DeliveryType="TAKEAWAY",
            DeliveryAddress=...,
        )
        producer.produce(INVOICES, orjson.dumps(invoice), _STORE)
        self.sold[number] = Sale(card, time_ms, _FACTOR.earned_units(amount))

    def _own_producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "linger.ms": 5}
            )
        return self._producer
