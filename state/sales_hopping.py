"""The sales of each store and item by the hour, from every quarter of an hour on. Keys are those of `sales`."""

from __future__ import annotations

from datetime import timedelta

from state.sales import RETENTION, SIZE, ItemSales
from storekeeper import Store

HOP = timedelta(minutes=15)
"""From one window to the next."""

SALES_HOPPING = Store("sales-hopping", ItemSales, retention=SIZE + RETENTION)
