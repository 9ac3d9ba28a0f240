"""Processes the invoices of the tills.

| topic         | key             | value                                                                    |
|---------------|-----------------|--------------------------------------------------------------------------|
| `pos`         | StoreID         | an invoice                                                               |
| `hadoop-sink` | StoreID, masked | a line item, masked                                                      |
| `shipment`    | StoreID         | the invoice of a home delivery, byte by byte                             |
| `loyalty`     | CustomerCardNo  | what a purchase of a prime customer earned, and the total including it   |

Store `rewards` holds the totals of prime customers by CustomerCardNo.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Literal

from spark_apps.records.invoice import InvoiceSerde, Sale
from spark_apps.records.masked import masked_values
from spark_apps.records.money import PointsFactor
from spark_apps.records.purchase import Notification, PrimePurchase
from spark_apps.records.topics import HADOOP_SINK, LOYALTY, SHIPMENT
from spark_apps.records.topics import POS as POS_TOPIC
from state.rewards import REWARDS, TIERED_REWARDS, Rewards, TieredRewards, card_of, regional_key
from storekeeper import (
    CODE_DIGITS,
    AppSettings,
    KStream,
    StreamsBuilder,
    has_key_and_value,
    masked_code,
    topology_app,
    with_key,
)

LOYALTY_FACTOR = Decimal("0.02")
"""Points for one unit of currency."""


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Invoices to shipments, masked line items, and the rewards of prime customers."""
    purchases = prime_purchases(streams, settings)
    rewards = purchases.group_by_key().aggregate(Rewards, with_key(with_purchase), store=REWARDS)
    # The table comes first, so that a purchase is joined to the total that includes it.
    purchases.join(rewards, with_key(Notification.of)).to(LOYALTY)


def with_tiers(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology from version 2 of the rewards on: they have a tier."""
    _rewarded(streams, settings, by="card")


def by_region(streams: StreamsBuilder, settings: AppSettings) -> None:
    """The topology from version 3 of the rewards on: their key begins with the region."""
    _rewarded(streams, settings, by="region")


def _rewarded(streams: StreamsBuilder, settings: AppSettings, *, by: Literal["card", "region"]) -> None:
    purchases = prime_purchases(streams, settings)
    if by == "region":
        purchases = purchases.select_key(lambda card, _: regional_key(card))
    rewards = purchases.group_by_key().aggregate(TieredRewards, with_key(with_tiered_purchase), store=TIERED_REWARDS)
    notified = purchases.join(rewards, with_key(notification))
    notified.select_key(lambda _, note: note.card).to(LOYALTY)


def prime_purchases(streams: StreamsBuilder, settings: AppSettings) -> KStream[str, PrimePurchase]:
    """Writes shipments and masked line items; gives the purchases of prime customers, by card."""
    sales = streams.stream(POS_TOPIC, InvoiceSerde(settings.max_record_bytes), keys=bytes, check=has_key_and_value)
    sales.flat_map(masked_lines, keys=bytes, values=bytes, named="masked").to(HADOOP_SINK)
    sales.flat_map(shipment, keys=bytes, values=bytes, named="shipments").to(SHIPMENT)

    earning = partial(purchase, PointsFactor(LOYALTY_FACTOR))
    return sales.flat_map(earning, keys=str, values=PrimePurchase, named="purchases")


def masked_lines(_key: bytes, sale: Sale) -> list[tuple[bytes, bytes]]:
    """A masked record for each line item."""
    store = masked_code(sale.invoice.store_id, CODE_DIGITS).encode()
    return [(store, line) for line in masked_values(sale.invoice)]


def shipment(_key: bytes, sale: Sale) -> list[tuple[bytes, bytes]]:
    """The original invoice, if it is a home delivery."""
    return [(sale.invoice.store_id.encode(), sale.data)] if sale.invoice.is_home_delivery else []


def purchase(factor: PointsFactor, _key: bytes, sale: Sale) -> list[tuple[str, PrimePurchase]]:
    """The purchase by card, if it is a prime customer's."""
    invoice = sale.invoice
    if not invoice.is_prime:
        return []
    earned = Decimal(factor.earned_units(invoice.total_amount)).scaleb(-4)
    return [
        (
            invoice.customer_card_no,
            PrimePurchase(invoice.invoice_number, invoice.created_time_ms, invoice.total_amount, earned),
        )
    ]


def with_purchase(card: str, rewards: Rewards, purchase: PrimePurchase) -> Rewards:
    """The rewards with one more purchase."""
    return Rewards(
        card,
        rewards.total + purchase.earned,
        rewards.invoices + 1,
        max(rewards.last_invoice_ms, purchase.created_time_ms),
    )


def with_tiered_purchase(key: str, rewards: TieredRewards, purchase: PrimePurchase) -> TieredRewards:
    """The rewards with one more purchase. The key is the card, or ends with it."""
    plain = Rewards(rewards.card, rewards.total, rewards.invoices, rewards.last_invoice_ms)
    return TieredRewards.of(with_purchase(card_of(key), plain, purchase))


def notification(key: str, purchase: PrimePurchase, rewards: TieredRewards) -> Notification:
    """The notification of a purchase, whose key is the card, or ends with it."""
    return Notification.of(card_of(key), purchase, rewards)


POS = topology_app(
    "pos",
    topology,
    title="Invoices to shipments, masked line items and rewards",
    migrations="state.rewards:MIGRATIONS",
)
