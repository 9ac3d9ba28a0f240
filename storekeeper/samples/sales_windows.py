"""Sales per store and item in windows of time.

The key of the window stores is `<StoreID>/<ItemCode>` (a slash inside the StoreID is written `%2F`, a percent sign
`%25`). A window takes sales until `GRACE` after its end, by stream time; later sales are left out of that
window and counted. A window stays in its store for `RETENTION` after its end.

Each invoice counts once for each of its items: it is recognised by store, item, number and time for as long as a window
of its time is open. Store `seen-sales` keeps those.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import msgspec

from storekeeper.apps.records import KeySerde, all_of, json_name, keyed_by, not_ahead
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.samples.once import once
from storekeeper.samples.records.invoice import InvoiceSerde, Sale
from storekeeper.samples.records.money import to_units
from storekeeper.samples.records.topics import POS
from storekeeper.stores.windowed import Windowed
from storekeeper.topology import Store, StreamsBuilder, hopping, tumbling, with_window

SIZE = timedelta(hours=1)
HOP = timedelta(minutes=15)
"""From one hopping window to the next."""
GRACE = timedelta(days=7)
"""A till may be offline for days. It sends its sales when it is back."""
RETENTION = timedelta(days=7)
NOTHING = Decimal("0.0000")
Time = Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]
# Expected, not enforced: an invoice may say otherwise, and its row must still be read.
Total = Annotated[int, msgspec.Meta(extra={"never_negative": True, "only_grows": True})]
Amount = Annotated[Decimal, msgspec.Meta(extra={"sql": "decimal(18,4)"})]


class SoldItem(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What an invoice holds of one item. An item on two lines is one sale."""

    invoice_number: str
    store_id: str
    item_code: str
    quantity: int
    amount: Decimal


class ItemSales(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """A row of the window stores."""

    store_id: str = ""
    item_code: str = ""
    window_start_ms: Time = 0
    window_end_ms: Time = 0
    sales: Total = 0
    quantity: Total = 0
    amount: Amount = NOTHING


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Sums up the sales of each store and item, in tumbling and in hopping windows."""
    kept = SIZE + RETENTION  # a row's time is its window's start
    invoices = streams.stream(
        POS, InvoiceSerde(settings.max_record_bytes), keys=KeySerde(),
        check=all_of(keyed_by("StoreID", store_of), not_ahead(time_of)),
        timestamps=lambda _, sale: sale.invoice.created_time_ms,
    )  # fmt: skip
    sold = invoices.flat_map(sold_items, keys=str, values=SoldItem, named="sold-items")
    memory_ms = (SIZE + GRACE) // timedelta(milliseconds=1)
    grouped = once(streams, sold, number_of, store="seen-sales", memory_ms=memory_ms).group_by_key()
    for name, windows in (
        ("sales", tumbling(SIZE, grace=GRACE)),
        ("sales-hopping", hopping(SIZE, advance=HOP, grace=GRACE)),
    ):
        grouped.windowed_by(windows).aggregate(
            ItemSales, with_window(with_sale), store=Store(name, ItemSales, retention=kept)
        )


def sold_items(_key: str, sale: Sale) -> list[tuple[str, SoldItem]]:
    """What was sold of each item, by store and item."""
    store_id, items = sale.invoice.store_id, dict[str, tuple[int, int]]()
    for line in sale.invoice.line_items:
        quantity, units = items.get(line.item_code, (0, 0))
        items[line.item_code] = quantity + line.item_qty, units + to_units(line.total_value)
    return [
        (
            item_key(store_id, item_code),
            SoldItem(sale.invoice.invoice_number, store_id, item_code, quantity, Decimal(units).scaleb(-4)),
        )
        for item_code, (quantity, units) in items.items()
    ]


def item_key(store_id: str, item_code: str) -> str:
    """The key of a store's item in the window stores."""
    return f"{store_id.replace('%', '%25').replace('/', '%2F')}/{item_code}"


def with_sale(window: Windowed[str], row: ItemSales, item: SoldItem) -> ItemSales:
    """The window's row with one more sale."""
    return ItemSales(
        item.store_id,
        item.item_code,
        window.start_ms,
        window.end_ms,
        row.sales + 1,
        row.quantity + item.quantity,
        row.amount + item.amount,
    )


def number_of(item: SoldItem) -> str:
    """The invoice number, which distinguishes sales of one item and time."""
    return item.invoice_number


def store_of(sale: Sale) -> str:
    """The store of a sale."""
    return sale.invoice.store_id


def time_of(sale: Sale) -> int:
    """The time of a sale, epoch ms."""
    return sale.invoice.created_time_ms


# The app `pos` reports the invoices that can't be parsed. Those that this app alone refuses are only counted.
SALES_WINDOWS = topology_app(
    "sales_windows", topology, title="Sales per store and item in windows of time", dead_letters=False
)
