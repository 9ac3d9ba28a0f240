"""A topic read as a table, filtered, and materialized by name: Kafka Streams' `table(…).filter(…, Materialized.as(…))`.

The key is the symbol, the value its price as text, such as `1250.40`. Each record replaces the one before it; no value,
or an empty one, deletes the symbol. Symbols that the pattern doesn't match as a whole never get in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.records.poison import PoisonRecordError, text_key
from spark_apps.settings import AppSettings
from spark_apps.ticks.spec import PRICES

_PRICE = re.compile(rb"-?(?:0|[1-9]\d{0,9})(?:\.\d{1,8})?")


@dataclass(frozen=True, slots=True)
class Ticks:
    """Keeps the last price of each symbol that `pattern` matches. It needs no state: a store's row is its state."""

    pattern: str

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Changes the symbol's row."""
        symbol = text_key(record.key)
        if not re.fullmatch(self.pattern, symbol):
            return
        if not record.value:
            context.change(PRICES.name, symbol.encode(), None)
            return
        if not _PRICE.fullmatch(record.value):
            raise PoisonRecordError("the price is not a number with at most ten digits and eight decimals")
        value = b'{"Symbol":' + orjson.dumps(symbol) + b',"Price":' + record.value + b"}"
        context.change(PRICES.name, symbol.encode(), value)

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Never called: nothing is scheduled."""


def processor(settings: AppSettings) -> Ticks:
    """The app's logic under these settings."""
    return Ticks(settings.ticks_pattern)
