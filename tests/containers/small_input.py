"""Invoices for the app `pos` of a small platform, and whether all that must come of them is there, once."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import orjson

from harness.sales import good_sales
from harness.topics import read_topic, write_topic
from harness.waiting import eventually
from storekeeper.client.client import StateClient
from storekeeper.errors import StateError
from tests.containers.small_platform import START_S, SmallPlatform


@dataclass
class SmallInput:
    """What was published to a platform."""

    platform: SmallPlatform
    _seeds: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _sold: list[tuple[bytes, bytes]] = field(default_factory=list)

    def publish(self, count: int = 60) -> None:
        """Publishes more invoices."""
        sales = good_sales(count, seed=next(self._seeds))
        write_topic(self.platform.bootstrap, "pos", sales)
        self._sold += sales

    def by_card(self) -> Counter[str]:
        """The number of each card's invoices."""
        return Counter(
            invoice["CustomerCardNo"]
            for invoice in (orjson.loads(value) for _, value in self._sold)
            if invoice["CustomerType"].upper() == "PRIME"
        )

    def check(self) -> None:
        """Waits until each card's row is in the store, then compares: each shipment and each notification once."""
        bought = self.by_card()
        with StateClient(self.platform.node) as client:
            rewards = client.key_value("rewards")

            def counted() -> bool:
                try:
                    return {row.key: row.value["InvoiceCount"] for row in rewards.all()} == bought
                except StateError:
                    return False

            eventually(counted, START_S, "the node has each card's count")
        shipments = Counter(
            value for _, value in self._sold if orjson.loads(value)["DeliveryType"].upper() != "TAKEAWAY"
        )

        def shipped() -> Counter[bytes | None]:
            return Counter(record.value for record in read_topic(self.platform.bootstrap, "shipment"))

        # An invoice without a card may come later than all cards.
        eventually(lambda: shipped().total() >= shipments.total(), START_S, "the shipments are there")
        assert shipped() == shipments
        points = Counter(record.key for record in read_topic(self.platform.bootstrap, "loyalty"))
        assert points == Counter({card.encode(): count for card, count in bought.items()})
        assert read_topic(self.platform.bootstrap, "pos-dlq") == []
