"""The sales of each store and item, by the hour. Key: `<StoreID>/<ItemCode>`, and the start of the window.

A slash inside the StoreID is written `%2F`, a percent sign `%25`.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated

import msgspec

from storekeeper import Store, json_name

SIZE = timedelta(hours=1)
GRACE = timedelta(days=7)
"""A till may be offline for days. It sends its sales when it is back."""
RETENTION = timedelta(days=7)
"""How long a window stays after its end."""
NOTHING = Decimal("0.0000")
_Time = Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]
# Expected, not enforced: an invoice may say otherwise, and its row must still be read.
_Total = Annotated[int, msgspec.Meta(extra={"never_negative": True, "only_grows": True})]
_Amount = Annotated[Decimal, msgspec.Meta(extra={"sql": "decimal(18,4)"})]


class ItemSales(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """What a store sold of an item in a window."""

    store_id: str = ""
    item_code: str = ""
    window_start_ms: _Time = 0
    window_end_ms: _Time = 0
    sales: _Total = 0
    quantity: _Total = 0
    amount: _Amount = NOTHING


# A row's time is its window's start.
SALES = Store("sales", ItemSales, retention=SIZE + RETENTION)
