"""What a campaign writes to the topics that its apps read: good records of each system, and poison of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count

import orjson

from demo.systems.events import system_records
from harness.poison import Poison, poison_of
from harness.sales import good_sales

POS, LINE_ITEMS = "pos", "hadoop-sink"
SYSTEMS = ("ticks", "game-results", "players", "products", "order-events", "user-events")
_BYTES_AS_KEYS = (POS, LINE_ITEMS)
_LINE_ITEM = {
    "InvoiceNumber": "written by hand",
    "CreatedTime": 1_595_688_900_348,
    "StoreID": "STR1",
    "PosID": "POS1",
    "CustomerType": "PRIME",
    "PaymentMethod": "CARD",
    "DeliveryType": "TAKEAWAY",
    "City": None,
    "State": None,
    "PinCode": None,
    "ItemCode": "458",
    "ItemDescription": "Chair",
    "ItemPrice": 4735.0,
    "ItemQty": 2,
    "TotalValue": 9470.0,
}


@cache
def poison(topic: str) -> dict[str, Poison]:
    """Poison of a topic, by kind."""
    if topic == POS:
        key, value = good_sales(1, seed=0)[0]
    elif topic == LINE_ITEMS:
        key, value = b"STR1", orjson.dumps(_LINE_ITEM)
    else:
        key, value = next((r.key or b"", r.value or b"") for r in system_records() if r.topic == topic)
    return poison_of(topic, key, value, text_keys=topic not in _BYTES_AS_KEYS)


@cache
def _kinds(topic: str) -> dict[tuple[bytes | None, bytes | None], str]:
    return {made[:2]: kind for kind, made in poison(topic).items()}


def kind_of(topic: str, key: bytes | None, value: bytes | None) -> str | None:
    """The kind of a record of poison; None if it is none."""
    return _kinds(topic).get((key, value))


def sales(seed: int, per_step: int) -> Iterator[list[tuple[str, Poison]]]:
    """Good invoices without end, step by step, each with a number of its own."""
    for _ in count():
        yield [(POS, Poison(*record)) for record in good_sales(per_step, seed)]
        seed += 1


def system_steps(scale: int, per_step: int) -> Iterator[list[tuple[str, Poison]]]:
    """The records of the smaller systems, all topics side by side, in steps that last for `scale` minutes."""
    by_topic = {topic: [r for r in system_records(scale) if r.topic == topic] for topic in SYSTEMS}
    # Each topic is spread over the whole time.
    placed = [(at / len(own), topic, at, r) for topic, own in by_topic.items() for at, r in enumerate(own)]
    records = [(topic, Poison(r.key, r.value)) for _, topic, _, r in sorted(placed, key=lambda place: place[:3])]
    for first in range(0, len(records), per_step):
        yield records[first : first + per_step]
    while True:
        yield []
