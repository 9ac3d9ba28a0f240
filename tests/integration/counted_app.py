"""An app such as a user's own: it deletes rows, knows more than its rows tell, and tells of every event."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson
from spark_apps.processor.on_spark import open_processor_stream
from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord

from spark_apps.generations.migration import StoreMigration, StoreRecord
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from spark_apps.stream import Stream, StreamContext
from state.keys.windows import window_row_key
from state.query.definitions import StoreKind

EVENTS, NOTES = "counted-events", "counted-notes"
RESET = 0
"""An amount that deletes the key's row. Its events are counted on."""

SUMS = StoreSpec(
    name="sums",
    app="counted",
    value_fields=(ValueField("Key", "string"), ValueField("Sum", "bigint")),
)
TENS = StoreSpec(
    name="tens",
    app="counted",
    kind=StoreKind.WINDOW,
    value_fields=(ValueField("Key", "string"), ValueField("Events", "bigint")),
)
"""Windows of ten events of a key each, of which the last `KEPT` stay. The n-th begins at n minutes."""
TEN, KEPT, MINUTE_MS = 10, 2, 60_000
COUNTED = AppSpec(
    name="counted",
    title="Sums and numbers of events",
    module=__name__,
    topology=__name__,
    sources=lambda _: (EVENTS,),
    sinks=lambda _: (NOTES,),
    stores=(SUMS, TENS),
)


@dataclass(frozen=True, slots=True)
class Counted:
    """A row has the sum since the last reset, a window its events; the state has the number of all events."""

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Adds an amount, or deletes the row."""
        key, amount = record.key or b"", orjson.loads(record.value or b"0")
        events, total = orjson.loads(context.get(key) or b"[0, 0]")
        events, total = events + 1, 0 if amount == RESET else total + amount
        context.put(key, orjson.dumps([events, total]))
        context.forward(NOTES, key, orjson.dumps([events, total]))
        context.change(SUMS.name, key, None if amount == RESET else row(key, total))
        number = (events - 1) // TEN
        context.change(TENS.name, window_key(key, number), window(key, events - number * TEN), inner_key=key)
        if number >= KEPT:
            context.change(TENS.name, window_key(key, number - KEPT), None, inner_key=key)

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Never called."""


def open_stream(context: StreamContext) -> Stream:
    """The app's stream."""
    return open_processor_stream(context, COUNTED, Counted())


def row(key: bytes, total: int) -> bytes:
    """A row of version 1."""
    return orjson.dumps({"Key": key.decode(), "Sum": total})


def window_key(key: bytes, number: int) -> bytes:
    """The row key of one of a key's windows, from 0."""
    return window_row_key(key, number * MINUTE_MS)


def window(key: bytes, events: int) -> bytes:
    """A window of version 1."""
    return orjson.dumps({"Key": key.decode(), "Events": events})


def with_full(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 1 of a window to version 2: whether it is full."""
    old = orjson.loads(value)
    return [(key, orjson.dumps(old | {"Full": old["Events"] == TEN}))]


def without_full(key: bytes, value: bytes) -> StoreRecord:
    """From version 2 of a window to version 1."""
    old = orjson.loads(value)
    del old["Full"]
    return key, orjson.dumps(old)


def by_first_letter(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 1 to version 2: `apple` becomes `a|apple`, and the row says whether its sum is even."""
    old = orjson.loads(value)
    return [(new, orjson.dumps(old | {"Even": old["Sum"] % 2 == 0})) for new in key_by_first_letter(key)]


def key_by_first_letter(key: bytes) -> list[bytes]:
    """The key of version 2."""
    return [key[:1] + b"|" + key]


def as_before(key: bytes, value: bytes) -> StoreRecord:
    """From version 2 to version 1."""
    old = orjson.loads(value)
    return key.partition(b"|")[2], row(old["Key"].encode(), old["Sum"])


def half_of(key: bytes) -> str:
    """The store that a key of version 1 leads to."""
    return "low" if key < b"m" else "high"


BY_LETTER = StoreMigration(
    name="by-letter",
    store=SUMS.name,
    summary="Puts the first letter in front of the key, and says whether sums are even.",
    to_version=2,
    convert=f"{__name__}:by_first_letter",
    revert=f"{__name__}:as_before",
    convert_key=f"{__name__}:key_by_first_letter",
    changes_key=True,
    value_fields=(*SUMS.value_fields, ValueField("Even", "boolean")),
)
BY_HALF = replace(BY_LETTER, name="by-half", stores=("low", "high"), route=f"{__name__}:half_of")
"""The same, and two stores in place of one."""
WITH_FULL = StoreMigration(
    name="with-full",
    store=TENS.name,
    summary="Says of windows whether they are full.",
    to_version=2,
    convert=f"{__name__}:with_full",
    revert=f"{__name__}:without_full",
    value_fields=(*TENS.value_fields, ValueField("Full", "boolean")),
)
BY_NUMBER = replace(WITH_FULL, name="by-number", changes_key=True)
"""What can't be: keys of windows stay."""
