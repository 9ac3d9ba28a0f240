"""An app such as a user's own: it deletes rows, knows more than its rows tell, and tells of every event."""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from spark_apps.generations.migration import StoreMigration, StoreRecord
from spark_apps.processor.on_spark import open_processor_stream
from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from spark_apps.stream import Stream, StreamContext

EVENTS, NOTES = "counted-events", "counted-notes"
RESET = 0
"""An amount that deletes the key's row. Its events are counted on."""

SUMS = StoreSpec(
    name="sums",
    app="counted",
    value_fields=(ValueField("Key", "string"), ValueField("Sum", "bigint")),
)
COUNTED = AppSpec(
    name="counted",
    title="Sums and numbers of events",
    module=__name__,
    topology=__name__,
    sources=lambda _: (EVENTS,),
    sinks=lambda _: (NOTES,),
    stores=(SUMS,),
)


@dataclass(frozen=True, slots=True)
class Counted:
    """The row has the sum since the last reset; the state has the number of all events, too."""

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Adds an amount, or deletes the row."""
        key, amount = record.key or b"", orjson.loads(record.value or b"0")
        events, total = orjson.loads(context.get(key) or b"[0, 0]")
        events, total = events + 1, 0 if amount == RESET else total + amount
        context.put(key, orjson.dumps([events, total]))
        context.forward(NOTES, key, orjson.dumps([events, total]))
        context.change(SUMS.name, key, None if amount == RESET else row(key, total))

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Never called."""


def open_stream(context: StreamContext) -> Stream:
    """The app's stream."""
    return open_processor_stream(context, COUNTED, Counted())


def row(key: bytes, total: int) -> bytes:
    """A row of version 1."""
    return orjson.dumps({"Key": key.decode(), "Sum": total})


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
