"""The last price of each symbol. Key: the symbol."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from storekeeper import Store


class Price(msgspec.Struct, frozen=True, rename="pascal"):
    """A price."""

    symbol: str
    price: Annotated[Decimal, msgspec.Meta(extra={"sql": "decimal(18,8)"})]


PRICES = Store("prices", Price)
