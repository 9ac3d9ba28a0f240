"""The newest time of each order, also of one that has ended. Key: OrderNumber, and that time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from storekeeper import Store, StoreKind, json_name

RETENTION = timedelta(days=7)
"""How long an order is remembered. An older event is late."""


class OrderTime(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """The time of an order's newest event."""

    event_time_ms: Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]


ORDER_TIMES = Store("order-times", OrderTime, kind=StoreKind.WINDOW, retention=RETENTION)
