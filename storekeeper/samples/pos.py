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

from storekeeper.apps.leaks import CODE_DIGITS, masked_code
from storekeeper.apps.records import has_key_and_value
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.samples.records.invoice import InvoiceSerde, Sale
from storekeeper.samples.records.masked import masked_values
from storekeeper.samples.records.money import PointsFactor
from storekeeper.samples.records.rewards import Notification, PrimePurchase, Rewards
from storekeeper.samples.records.topics import HADOOP_SINK, LOYALTY, SHIPMENT
from storekeeper.samples.records.topics import POS as POS_TOPIC
from storekeeper.topology import KStream, Store, StreamsBuilder, with_key

LOYALTY_FACTOR = Decimal("0.02")
"""Points for one unit of currency."""


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Invoices to shipments, masked line items, and the rewards of prime customers."""
    purchases = prime_purchases(streams, settings)
    rewards = purchases.group_by_key().aggregate(
        Rewards, with_key(Rewards.with_purchase), store=Store("rewards", Rewards, profile="read_heavy")
    )
    # The table comes first, so that a purchase is joined to the total that includes it.
    purchases.join(rewards, with_key(Notification.of)).to(LOYALTY)


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


POS = topology_app(
    "pos",
    topology,
    title="Invoices to shipments, masked line items and rewards",
    migrations="storekeeper.samples.pos_migrations:MIGRATIONS",
)
