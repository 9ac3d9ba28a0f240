"""The rows of store `orders`, on every node. Key: OrderNumber. Its changelog is a topic that others read too."""

from __future__ import annotations

from state.orders import OrderLocation
from storekeeper import Store

ORDER_LOCATIONS = Store("order-locations", OrderLocation, changelog="order-locations", everywhere=True)
