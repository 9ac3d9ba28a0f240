"""The platform's expected output, recomputed in plain Python from the demo's input alone.

It shares no code with the apps that it checks: the rules are written down a second time, in the simplest words, with
exact decimals and no batches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from demo.invoices import Record

LOYALTY_FACTOR = Decimal("0.02")
POINTS = Decimal("0.0001")

MASKED_INVOICE_FIELDS = (
    *("InvoiceNumber", "CreatedTime", "StoreID", "PosID", "CustomerType", "PaymentMethod", "DeliveryType"),
)
MASKED_ADDRESS_FIELDS = ("City", "State", "PinCode")
MASKED_ITEM_FIELDS = ("ItemCode", "ItemDescription", "ItemPrice", "ItemQty", "TotalValue")
MASKED_FIELDS = (*MASKED_INVOICE_FIELDS, *MASKED_ADDRESS_FIELDS, *MASKED_ITEM_FIELDS)

MaskedRow = tuple[Any, ...]
"""The values of `MASKED_FIELDS` in their order: times in epoch ms, numbers as decimals or ints, None where absent."""


@dataclass(frozen=True, slots=True)
class Earning:
    """What one invoice of a prime customer earns."""

    card: str
    amount: Decimal
    points: Decimal


@dataclass(frozen=True, slots=True)
class Reward:
    """A prime customer's final totals. The time is in epoch milliseconds."""

    points: Decimal
    invoices: int
    last_time_ms: int


@dataclass(slots=True)
class Expectation:
    """The whole expected output. Counters hold how often each record must occur."""

    shipments: Counter[tuple[bytes | None, bytes | None]] = field(default_factory=Counter)
    masked: Counter[MaskedRow] = field(default_factory=Counter)
    earnings: dict[str, Earning] = field(default_factory=dict)
    rewards: dict[str, Reward] = field(default_factory=dict)
    invoices: int = 0


def expect(records: Iterable[Record]) -> Expectation:
    """The expected output for the good records of topic `pos`."""
    expected = Expectation()
    for record in records:
        invoice = json.loads(record.value or b"", parse_float=Decimal)
        expected.invoices += 1
        if invoice["DeliveryType"].upper() == "HOME-DELIVERY":
            expected.shipments[record.key, record.value] += 1
        expected.masked.update(masked_rows(invoice))
        if invoice["CustomerType"].upper() == "PRIME":
            _earn(expected, invoice)
    return expected


def masked_rows(invoice: dict[str, Any]) -> list[MaskedRow]:
    """The masked rows of an invoice, one per line item."""
    address = invoice.get("DeliveryAddress") or {}
    head = tuple(invoice[name] for name in MASKED_INVOICE_FIELDS)
    place = tuple(address.get(name) for name in MASKED_ADDRESS_FIELDS)
    return [(*head, *place, *(item[name] for name in MASKED_ITEM_FIELDS)) for item in invoice["InvoiceLineItems"]]


def _earn(expected: Expectation, invoice: dict[str, Any]) -> None:
    card, amount = invoice["CustomerCardNo"], Decimal(invoice["TotalAmount"])
    points = (amount * LOYALTY_FACTOR).quantize(POINTS)
    expected.earnings[invoice["InvoiceNumber"]] = Earning(card, amount, points)
    known = expected.rewards.get(card, Reward(Decimal(0), 0, 0))
    expected.rewards[card] = Reward(
        known.points + points, known.invoices + 1, max(known.last_time_ms, invoice["CreatedTime"])
    )
