"""Sales per store and item in windows of time.

The key of the window stores is `<StoreID>/<ItemCode>` (a slash inside the StoreID is written `%2F`, a percent sign
`%25`). A window takes sales until `GRACE` after its end, by stream time; later sales are left out of that
window and counted. A window stays in its store for `RETENTION` after its end.

Each invoice counts once for each of its items: it is recognised by store, item, number and time for as long as a window
of its time is open. Store `seen-sales` keeps those.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from spark_apps.operators.once import once
from spark_apps.records.invoice import InvoiceSerde, Sale
from spark_apps.records.money import to_units
from spark_apps.records.topics import POS
from state.sales import GRACE, SALES, SIZE, ItemSales
from state.sales_hopping import HOP, SALES_HOPPING
from state.seen_sales import SEEN_SALES
from storekeeper import (
    AppSettings,
    KeySerde,
    StreamsBuilder,
    Windowed,
    all_of,
    hopping,
    keyed_by,
    not_ahead,
    topology_app,
    tumbling,
    with_window,
)


class SoldItem(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What an invoice holds of one item. An item on two lines is one sale."""

    invoice_number: str
    store_id: str
    item_code: str
    quantity: int
    amount: Decimal


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Sums up the sales of each store and item, in tumbling and in hopping windows."""
    invoices = streams.stream(
        POS, InvoiceSerde(settings.max_record_bytes), keys=KeySerde(),
        check=all_of(keyed_by("StoreID", store_of), not_ahead(time_of)),
        timestamps=lambda _, sale: sale.invoice.created_time_ms,
    )  # fmt: skip
    sold = invoices.flat_map(sold_items, keys=str, values=SoldItem, named="sold-items")
    grouped = once(streams, sold, number_of, SEEN_SALES).group_by_key()
    for windows, store in (
        (tumbling(SIZE, grace=GRACE), SALES),
        (hopping(SIZE, advance=HOP, grace=GRACE), SALES_HOPPING),
    ):
        grouped.windowed_by(windows).aggregate(ItemSales, with_window(with_sale), store=store)


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
