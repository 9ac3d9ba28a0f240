"""The sales that are remembered, so that a repeat counts once. Key: as in `sales`, and the sale's time."""

from __future__ import annotations

from state.sales import GRACE, SIZE
from state.seen import Seen
from storekeeper import Store, StoreKind

SEEN_SALES = Store("seen-sales", Seen, kind=StoreKind.WINDOW, retention=SIZE + GRACE)
