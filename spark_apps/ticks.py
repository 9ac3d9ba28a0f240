"""The last price of each symbol: a topic read as a table, filtered, and kept under a name.

The key is the symbol, the value its price as text, such as `1250.40`. Each record replaces the one before it; no value,
or an empty one, deletes the symbol. Symbols that the pattern does not match as a whole are left out.
"""

from __future__ import annotations

import re
from decimal import Decimal

from state.prices import PRICES, Price
from storekeeper import AppSettings, KeySerde, PoisonRecordError, StreamsBuilder, has_key, topology_app, with_key

TOPIC = "ticks"
SYMBOLS = re.compile("[A-Z]{1,5}")
"""The symbols whose prices are kept."""
_is_price = re.compile(rb"-?(?:0|[1-9]\d{0,9})(?:\.\d{1,8})?").fullmatch


class PriceSerde:
    """Prices as text."""

    def deserialize(self, data: bytes) -> Decimal | None:
        """The price; None for an empty text, which deletes like a missing value.

        Raises:
            PoisonRecordError: it is not a valid price.
        """
        if data and not _is_price(data):
            raise PoisonRecordError("the price is not a number with at most ten digits and eight decimals")
        return Decimal(data.decode()) if data else None

    def serialize(self, value: Decimal | None) -> bytes:
        """The price as text."""
        return b"" if value is None else f"{value:f}".encode()


def topology(streams: StreamsBuilder, _: AppSettings) -> None:
    """Keeps the last price of each symbol that the pattern matches."""
    ticks = streams.stream(TOPIC, PriceSerde(), keys=KeySerde(), check=has_key)
    wanted = ticks.filter(lambda symbol, _: SYMBOLS.fullmatch(symbol) is not None)
    wanted.map_values(with_key(row)).to_table(store=PRICES)


def row(symbol: str, price: Decimal | None) -> Price | None:
    """The symbol's row, or None to delete it."""
    return None if price is None else Price(symbol, price)


TICKS = topology_app("ticks", topology, title="Last price per symbol")
