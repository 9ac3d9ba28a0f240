"""An app such as a user's own: it deletes rows, has windows and a store of its processor's own, and tells of events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.generations.migration import StoreMigration, StoreRecord
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.topology import KStream, ProcessorContext, Store, StoreKind, StreamsBuilder, with_key

EVENTS, NOTES = "counted-events", "counted-notes"
RESET = 0
"""An amount that deletes the key's row. Its events are counted on."""
TEN, KEPT, MINUTE_MS = 10, 2, 60_000
"""Windows of ten events of a key each, of which the last `KEPT` stay. The n-th begins at n minutes."""


class Sum(msgspec.Struct, frozen=True, rename="pascal"):
    """A row of store `sums`: what a key's amounts add up to since the last reset."""

    key: str = ""
    sum: int = 0


class EvenSum(Sum, frozen=True, rename="pascal"):
    """The same in version 2."""

    even: bool = True


class Window(msgspec.Struct, frozen=True, rename="pascal"):
    """A row of store `tens`."""

    key: str
    events: int


class FullWindow(Window, frozen=True, rename="pascal"):
    """The same in version 2."""

    full: bool


class Tens:
    """Counts the events of each key, tells of each, and keeps windows of ten."""

    def __init__(self, window: type[Window]) -> None:
        self._window = window

    def init(self, context: ProcessorContext[str, int]) -> None:
        """Finds its stores."""
        self._context = context
        self._numbers, self._tens = context.store("numbers"), context.store("tens")

    def process(self, key: str, _: int, timestamp_ms: int) -> None:
        """Counts an event."""
        events = (self._numbers.get(key) or 0) + 1
        self._numbers.put(key, events)
        number = (events - 1) // TEN
        count = events - number * TEN
        made = Window(key, count) if self._window is Window else FullWindow(key, count, count == TEN)
        self._tens.put(key, made, number * MINUTE_MS)
        if number >= KEPT:
            self._tens.put(key, None, (number - KEPT) * MINUTE_MS)
        self._context.forward(key, events, timestamp_ms)


def topology(streams: StreamsBuilder, _: AppSettings) -> None:
    """Sums and windows of version 1."""
    _described(streams, Sum, Window)


def with_letters(streams: StreamsBuilder, _: AppSettings) -> None:
    """Sums of version 2."""
    _described(streams, EvenSum, Window)


def with_both(streams: StreamsBuilder, _: AppSettings) -> None:
    """Sums and windows of version 2."""
    _described(streams, EvenSum, FullWindow)


def _described(streams: StreamsBuilder, sums: type[Sum], windows: type[Window]) -> None:
    events = streams.stream(EVENTS, int)
    if sums is Sum:
        _summed(events.repartition(named="by-key"), sums)
    else:
        _summed(events.select_key(lambda key, _: f"{key[:1]}|{key}"), sums)
    streams.add_store(Store("numbers", int))
    streams.add_store(Store("tens", windows, kind=StoreKind.WINDOW, retention=timedelta(days=400)))
    tens: Any = lambda: Tens(windows)  # noqa: E731 (one for each task)
    told: KStream[str, int] = events.repartition(named="for-tens").process(
        tens, stores=["numbers", "tens"], keys=str, values=int
    )
    told.to(NOTES)


def _summed(events: KStream[str, int], sums: type[Sum]) -> None:
    def plus(key: str, row: Sum, amount: int) -> Sum | None:
        total = row.sum + amount
        name = key.rpartition("|")[2]
        if amount == RESET:
            return None
        return Sum(name, total) if sums is Sum else EvenSum(name, total, total % 2 == 0)

    events.group_by_key().aggregate(sums, with_key(plus), store=Store("sums", sums))


COUNTED = topology_app("counted", topology, title="Sums and numbers of events")
SUMS, TENS = (next(store for store in COUNTED.stores if store.name == name) for name in ("sums", "tens"))


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


def by_first_letter(key: bytes, value: bytes) -> list[StoreRecord]:
    """From version 1 to version 2: `apple` becomes `a|apple`, and the row says whether its sum is even."""
    old = orjson.loads(value)
    return [(key[:1] + b"|" + key, orjson.dumps(old | {"Even": old["Sum"] % 2 == 0}))]


BY_LETTER = StoreMigration(
    name="by-letter",
    store=SUMS.name,
    summary="Puts the first letter in front of the key, and says whether sums are even.",
    to_version=2,
    convert=f"{__name__}:by_first_letter",
    describe=f"{__name__}:with_letters",
    changes_key=True,
)
WITH_FULL = StoreMigration(
    name="with-full",
    store=TENS.name,
    summary="Says of windows whether they are full.",
    to_version=2,
    convert=f"{__name__}:with_full",
    describe=f"{__name__}:with_both",
)
"""It follows on `BY_LETTER`."""
BY_NUMBER = replace(WITH_FULL, name="by-number", changes_key=True)
"""What can't be: keys of windows stay."""
