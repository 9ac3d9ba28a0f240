"""The totals of each key. Key: that of the events."""

from __future__ import annotations

import msgspec

from storekeeper import Store


class Totals(msgspec.Struct, frozen=True, rename="pascal"):
    """The totals of a key."""

    key: str = ""
    events: int = 0
    total: int = 0


TOTALS = Store("template_app_totals", Totals)
