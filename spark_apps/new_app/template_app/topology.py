"""From events to totals: pure functions, run by Spark and by tests alike.

The key of an event says what it belongs to; its value is {"Amount": 5}.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import orjson

from spark_apps.new_app.template_app.spec import TOTALS
from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.records.poison import Count, StrictDecoder, text_key
from spark_apps.settings import AppSettings


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    """What a record of the source topic holds. Anything else becomes a dead letter."""

    amount: Count


@dataclass(frozen=True, slots=True)
class TemplateApp:
    """Keeps the number and the sum of each key's events."""

    max_record_bytes: int

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Adds one event to its key's total."""
        name = text_key(record.key)
        event = StrictDecoder(Event, max_record_bytes=self.max_record_bytes).decode(record.key, record.value)
        key = name.encode()
        stored = context.get(key)
        events, total = orjson.loads(stored) if stored else (0, 0)
        events, total = events + 1, total + event.amount
        context.put(key, orjson.dumps([events, total]))
        value = {"Key": name, "Events": events, "Total": total}
        context.change(TOTALS.name, key, orjson.dumps(value))

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Never called, as nothing is scheduled: `context.schedule` would have it called at a time of the stream."""


def processor(settings: AppSettings) -> TemplateApp:
    """The app's logic under these settings."""
    return TemplateApp(settings.max_record_bytes)
