"""The orders on their way, by partition. Key: OrderNumber."""

from __future__ import annotations

from typing import Annotated

import msgspec

from storekeeper import Store, json_name


class OrderLocation(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """Where an order is. Degrees, north and east positive."""

    order_number: str
    status: str
    latitude: float
    longitude: float
    updated_time_ms: Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]


ORDERS = Store("orders", OrderLocation)
