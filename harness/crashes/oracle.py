"""What must be in every output, recomputed from the records of `pos` alone, and how what is there differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from harness.topics import Record

BY_HAND = b"poison"
"""The key of records that the feed writes to `hadoop-sink` itself. They can't be processed."""

_LINE_FIELDS = ("ItemCode", "ItemDescription", "ItemPrice", "ItemQty", "TotalValue")
_FACTOR = Decimal("0.02")
_SMALLEST = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Difference:
    """How one output differs from what it must be: what is missing, and what is there too often or at all."""

    output: str
    lost: int
    doubled: int

    @classmethod
    def between(cls, output: str, expected: Iterable[Hashable], found: Iterable[Hashable]) -> Difference:
        """The difference between two collections in which each thing counts as often as it is there."""
        wanted, there = Counter(expected), Counter(found)
        return cls(output, (wanted - there).total(), (there - wanted).total())

    @property
    def none(self) -> bool:
        """Whether the output is exactly right."""
        return not self.lost and not self.doubled


@dataclass(slots=True)
class PosOracle:
    """The invoices that arrived, by their places in `pos`, and everything that follows from them.

    `is_bad` says of a record's key and value whether it was made to be poison: the oracle doesn't decide it as the
    apps do.
    """

    records: list[Record]
    is_bad: Callable[[bytes | None, bytes | None], bool]
    good: dict[tuple[int, int], tuple[Record, dict[str, Any]]] = field(init=False)
    bad: set[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.bad = {(r.partition, r.offset) for r in self.records if self.is_bad(r.key, r.value)}
        kept = [r for r in self.records if (r.partition, r.offset) not in self.bad]
        self.good = {(r.partition, r.offset): (r, exact(r.value)) for r in kept}

    def differences(self, read: Callable[[str], list[Record]]) -> list[Difference]:
        """How each Kafka output differs; `read` reads the committed records of a topic."""
        return [
            self.shipments(read("shipment")),
            self.line_items(read("hadoop-sink")),
            self.notifications(read("loyalty")),
            *self.changelog(read("pos-rewards-changelog")),
            dead_letters("pos", self.bad, read("pos-dlq")),
        ]

    def shipments(self, found: list[Record]) -> Difference:
        """Each home delivery once, as it came."""
        expected = [
            (record.key, record.value)
            for record, invoice in self.good.values()
            if invoice["DeliveryType"].lower() == "home-delivery"
        ]
        return Difference.between("shipment", expected, ((r.key, r.value) for r in found))

    def line_items(self, found: list[Record]) -> Difference:
        """Each line item of each invoice once."""
        items = [exact(r.value) for r in found if r.key != BY_HAND]
        listed = [(item["InvoiceNumber"], *(item[name] for name in _LINE_FIELDS)) for item in items]
        return Difference.between("hadoop-sink", self._line_items(), listed)

    def notifications(self, found: list[Record]) -> Difference:
        """Each prime customer's purchase once, with what it earned, and totals that grow by exactly that."""
        expected = [(i["InvoiceNumber"], i["CustomerCardNo"], i["TotalAmount"], earned(i)) for i in self._prime()]
        totals: dict[str, Decimal] = {}
        listed: list[tuple[Any, ...]] = []
        for note in (exact(record.value) for record in found):
            card, points = note["CustomerCardNo"], note["EarnedLoyaltyPoints"]
            totals[card] = totals.get(card, Decimal(0)) + points
            entry = (note["InvoiceNumber"], card, note["TotalAmount"], points)
            listed.append(entry if note["TotalLoyaltyPoints"] == totals[card] else (*entry, "wrong total"))
        return Difference.between("loyalty", expected, listed)

    def changelog(self, found: list[Record]) -> list[Difference]:
        """The newest entry of each customer is the sum of all purchases, and no batch wrote a customer twice."""
        newest = {record.key: exact(record.value) for record in found}
        written = [(record.key, record.headers["batch-id"]) for record in found]
        return [
            Difference.between("changelog, rows", rows(self.rewards()), rows(newest)),
            Difference.between("changelog, records", set(written), written),
        ]

    def rewards(self) -> dict[bytes, dict[str, Any]]:
        """The store as it must be at the end, by its keys."""
        store: dict[bytes, dict[str, Any]] = {}
        for invoice in self._prime():
            card = invoice["CustomerCardNo"]
            row = store.setdefault(
                card.encode(),
                {"CustomerCardNo": card, "TotalLoyaltyPoints": Decimal(0), "InvoiceCount": 0, "LastInvoiceTime": 0},
            )
            row["TotalLoyaltyPoints"] += earned(invoice)
            row["InvoiceCount"] += 1
            row["LastInvoiceTime"] = max(row["LastInvoiceTime"], invoice["CreatedTime"])
        return store

    def exported(self, found: list[dict[str, Any]]) -> Difference:
        """Each line item is one row of the exported table."""
        listed = [(row["InvoiceNumber"], *(row[name] for name in _LINE_FIELDS)) for row in found]
        return Difference.between("Delta, export", self._line_items(), listed)

    def _line_items(self) -> list[Hashable]:
        return [
            (invoice["InvoiceNumber"], *(line[name] for name in _LINE_FIELDS))
            for _, invoice in self.good.values()
            for line in invoice["InvoiceLineItems"]
        ]

    def _prime(self) -> list[dict[str, Any]]:
        return [invoice for _, invoice in self.good.values() if invoice["CustomerType"].lower() == "prime"]


def dead_letters(app: str, bad: set[tuple[int, int]], found: list[Record]) -> Difference:
    """Each bad record of an app's source once, by its place there."""
    places = [(int(r.headers["dlq.partition"] or b""), int(r.headers["dlq.offset"] or b"")) for r in found]
    return Difference.between(f"{app}-dlq", bad, places)


def rows(store: Mapping[Any, Mapping[str, Any]]) -> list[Hashable]:
    """A store's rows, comparable."""
    return [(key, *sorted(row.items())) for key, row in store.items()]


def exact(value: bytes | None) -> Any:
    """JSON with its numbers as written."""
    assert value is not None
    return json.loads(value, parse_float=Decimal)


def earned(invoice: dict[str, Any]) -> Decimal:
    """The points of an invoice."""
    return (Decimal(invoice["TotalAmount"]) * _FACTOR).quantize(_SMALLEST, ROUND_HALF_UP)
