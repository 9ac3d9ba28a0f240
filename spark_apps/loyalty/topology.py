"""What becomes of a batch of purchases: pure functions, run by the app and by tests alike.

The running totals of a batch, per customer, come about in three steps:

1. `group_purchases`: a batch's purchases become one `CustomerBatch` a customer, its purchases in their final order;
2. between the steps, Spark adds the sums of all batches up, and hands the newest batch's purchases through;
3. `customer_records`: from the total after the batch back to the running total of each purchase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from spark_apps.records.loyalty import Purchase, notifications, rewards_value
from spark_apps.records.money import PointsFactor
from spark_apps.records.purchase import PrimePurchase

encode_purchases = msgspec.json.Encoder().encode
"""The bytes of a list of purchases, in which it travels through Spark's state."""

decode_purchases = msgspec.json.Decoder(list[Purchase]).decode
"""The list of purchases in such bytes."""


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


def group_purchases(purchases: Iterable[PrimePurchase], factor: PointsFactor) -> Iterator[CustomerBatch]:
    """One row a customer. The same purchases give the same rows, in whatever order they come."""
    for card, own in _by_customer(purchases).items():
        if len(own) > 1:
            own.sort(key=_order)
        earned = [Purchase(invoice, amount, factor.earned_units(amount)) for *_, invoice, amount in own]
        yield CustomerBatch(
            card,
            sum(purchase.earned_units for purchase in earned),
            len(own),
            own[-1].created_time_ms,
            encode_purchases(earned),
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
