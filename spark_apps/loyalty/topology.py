"""What becomes of a batch of invoices: pure functions, run by the app and by tests alike.

The running totals of a batch, per customer, come about in three steps:

1. `read_purchase`: each prime customer's invoice becomes a `PrimePurchase`;
2. `group_purchases`: a batch's purchases become one `CustomerBatch` a customer, its purchases in their final order;
3. between the steps, Spark adds the sums of all batches up, and hands the newest batch's purchases through;
4. `customer_records`: from the total after the batch back to the running total of each purchase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from spark_apps.records.invoice import parse_invoice
from spark_apps.records.loyalty import Purchase, notifications, rewards_value
from spark_apps.records.money import PointsFactor

_MAYBE_PRIME = re.compile(rb'"prime"|\\', re.IGNORECASE)

encode_purchases = msgspec.json.Encoder().encode
"""The bytes of a list of purchases, in which it travels through Spark's state."""

decode_purchases = msgspec.json.Decoder(list[Purchase]).decode
"""The list of purchases in such bytes."""


class PrimePurchase(NamedTuple):
    """A prime customer's invoice, with what orders it among the customer's others: time first, then place in `pos`.

    A named tuple because a frozen dataclass takes three times as long to make.
    """

    card: str
    created_time_ms: int
    partition: int
    offset: int
    invoice_number: str
    amount: float
    earned_units: int


class CustomerBatch(NamedTuple):
    """One customer's purchases in one batch, and their sums."""

    card: str
    earned_units: int
    invoice_count: int
    last_invoice_time_ms: int
    purchases: bytes


class CustomerRecord(NamedTuple):
    """A record to be written: a notification, or a change of the rewards store."""

    topic: str
    key: bytes
    value: bytes


def read_purchase(
    key: bytes | None,
    value: bytes | None,
    partition: int,
    offset: int,
    *,
    factor: PointsFactor,
    max_record_bytes: int,
) -> PrimePurchase | None:
    """The purchase in a record of `pos`; None if its customer isn't prime.

    Raises:
        PoisonRecordError: the record is no invoice.
    """
    # Half of all invoices are of others: seeing that in the bytes is ten times as fast as reading the JSON. What
    # isn't prime earns nothing, whether it is an invoice or poison, so nothing is lost by not looking closer.
    if value is not None and not _MAYBE_PRIME.search(value):
        return None
    invoice = parse_invoice(key, value, max_record_bytes=max_record_bytes)
    if not invoice.is_prime:
        return None
    return PrimePurchase(
        invoice.customer_card_no,
        invoice.created_time_ms,
        partition,
        offset,
        invoice.invoice_number,
        invoice.total_amount,
        factor.earned_units(invoice.total_amount),
    )


def group_purchases(purchases: Iterable[PrimePurchase]) -> Iterator[CustomerBatch]:
    """One row a customer. The same purchases give the same rows, in whatever order they come."""
    for card, own in _by_customer(purchases).items():
        own.sort(key=_order)
        yield CustomerBatch(
            card,
            sum(purchase.earned_units for purchase in own),
            len(own),
            own[-1].created_time_ms,
            encode_purchases([Purchase(*purchase[4:]) for purchase in own]),
        )


def customer_records(
    card: str,
    total_units: int,
    invoice_count: int,
    last_invoice_time_ms: int,
    purchases: bytes,
    *,
    loyalty_topic: str,
    changelog_topic: str,
) -> Iterator[CustomerRecord]:
    """The notifications of a customer's newest batch, in order, then the new entry of the rewards store.

    `total_units`, `invoice_count` and `last_invoice_time_ms` are the customer's after the batch.
    """
    key = card.encode()
    for value in notifications(card, decode_purchases(purchases), total_units):
        yield CustomerRecord(loyalty_topic, key, value)
    yield CustomerRecord(changelog_topic, key, rewards_value(card, total_units, invoice_count, last_invoice_time_ms))


def _by_customer(purchases: Iterable[PrimePurchase]) -> dict[str, list[PrimePurchase]]:
    customers: dict[str, list[PrimePurchase]] = {}
    for purchase in purchases:
        customers.setdefault(purchase.card, []).append(purchase)
    return customers


def _order(purchase: PrimePurchase) -> tuple[int, int, int]:
    return purchase[1:4]
