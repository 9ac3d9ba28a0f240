"""What must be in every output, recomputed from the records of `pos` alone, and how what is there differs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from harness.topics import Record

KindOf = Callable[[str, bytes | None, bytes | None], str | None]
"""Which kind of poison a topic's record, by key and value, was made to be; None if it is good."""
Bad = tuple[str, Record, str]
"""A record of poison: its topic, itself and its kind."""

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

    `kind_of` says of a topic, a key and a value which kind of poison they were made to be, or None: the oracle doesn't
    decide it as the apps do.
    """

    records: list[Record]
    kind_of: KindOf
    good: list[tuple[Record, dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        kept = [r for r in self.records if self.kind_of("pos", r.key, r.value) is None]
        self.good = [(record, exact(record.value)) for record in kept]

    def differences(self, read: Callable[[str], list[Record]]) -> list[Difference]:
        """How each Kafka output differs; `read` reads the committed records of a topic."""
        return [
            self.shipments(read("shipment")),
            self.line_items(read("hadoop-sink")),
            self.notifications(read("loyalty")),
            *self.changelog(read("pos-rewards-changelog")),
            dead_letters("pos", bad(self.kind_of, "pos", self.records), read("pos-dlq")),
        ]

    def shipments(self, found: list[Record]) -> Difference:
        """Each home delivery once, as it came."""
        expected = [
            (record.key, record.value)
            for record, invoice in self.good
            if invoice["DeliveryType"].lower() == "home-delivery"
        ]
        return Difference.between("shipment", expected, ((r.key, r.value) for r in found))

    def line_items(self, found: list[Record]) -> Difference:
        """Each line item of each invoice once."""
        items = [exact(r.value) for r in found if self.kind_of("hadoop-sink", r.key, r.value) is None]
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
            for _, invoice in self.good
            for line in invoice["InvoiceLineItems"]
        ]

    def _prime(self) -> list[dict[str, Any]]:
        return [invoice for _, invoice in self.good if invoice["CustomerType"].lower() == "prime"]


def bad(kind_of: KindOf, topic: str, records: Iterable[Record]) -> list[Bad]:
    """The poison of a topic."""
    kinds = ((record, kind_of(topic, record.key, record.value)) for record in records)
    return [(topic, record, kind) for record, kind in kinds if kind is not None]


def dead_letters(app: str, bad: Iterable[Bad], found: Iterable[Record]) -> Difference:
    """Each bad record of an app's topics once, unchanged, with its place and the right reason."""
    expected = {(topic, r.partition, r.offset): (r.key, r.value, app, reason_of(topic, kind)) for topic, r, kind in bad}
    listed = []
    for record in found:
        texts = {name: (text or b"").decode() for name, text in record.headers.items()}
        place = (texts.get("dlq.topic", ""), int(texts.get("dlq.partition", -1)), int(texts.get("dlq.offset", -1)))
        reason = expected[place][-1] if place in expected else ""
        told = texts.get("dlq.error.message", "")
        is_right = bool(texts.get("dlq.error.class")) and re.search(reason, told)
        listed.append((place, (record.key, record.value, texts.get("dlq.app"), reason if is_right else told)))
    return Difference.between(f"{app}-dlq", expected.items(), listed)


_MALFORMED = "NaN|Infinity|zero|hexadecimal|surrogate|escape|twice|trailing|mark|comma|quotes"
_REASONS = (
    ("^key: ", "^the key "),
    ("larger", "is larger than "),
    ("UTF-8|UTF-16|inside of a character", "is not UTF-8"),
    ("3,000.* deep", "nested too deeply|^Expected `object`"),
    ("^own: (in an array|as text)", "^Expected `object`"),
    ("^own: truncated", "malformed|truncated"),
    (f"^([A-Z]\\w+|own): .*({_MALFORMED})", "malformed|truncated"),
)
"""Expressions for kinds and for the reasons of those kinds, the first that fits."""


def reason_of(topic: str, kind: str) -> str:
    """An expression for the reason of a dead letter."""
    if topic == "ticks" and not kind.startswith("key: "):
        return "^the price is not a number|^the key is "
    for which, reason in _REASONS:
        if re.search(which, kind):
            return reason
    field = re.match(r"([A-Z]\w+): ", kind)
    if field is not None:
        return rf"`(\$\.)?{field[1]}`$"
    if topic != "pos":
        return "."  # these are invoices, and no records of the topic at all
    return "^its time is " if kind.startswith("record ") else "^the key " if " key" in kind[:5] else "."


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
