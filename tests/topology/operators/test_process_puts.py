"""Rows that a processor can't write: the record is a dead letter that names the store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from storekeeper.topology import ProcessorContext, Store, StoreKind, StreamsBuilder, TopologyTestDriver

LATEST_MS = 253_402_300_799_999
DAY = timedelta(days=1)


class Putting:
    """Puts the value, at a time that goes with it."""

    def init(self, context: ProcessorContext[str, Any]) -> None:
        self._rows = context.store("rows")

    def process(self, key: str, value: Any, _: int) -> None:
        self._rows.put(key, *value)


def driver_of(store: Store[Any], *, keys: Any = str) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    streams.add_store(store)
    streams.stream("in", list, keys=keys).process(Putting, stores=["rows"])
    return TopologyTestDriver(streams.build())


def test_a_row_of_another_type_names_its_store() -> None:
    driver = driver_of(Store("rows", int))
    for value in ([1], ["text"], [2]):
        driver.append("in", "k", value)
    driver.run()
    assert [letter.reason for letter in driver.dead_letters] == [
        "store rows: a str doesn't read back as int: Expected `int`, got `str`"
    ]
    assert driver.rows("rows") == [("k", 2)]


def test_a_key_of_another_type_names_its_store() -> None:
    driver = driver_of(Store("rows", int), keys=int)
    driver.pipe("in", 5, [1])
    assert [letter.reason[:39] for letter in driver.dead_letters] == ["store rows: expected text, not int: pas"]


@pytest.mark.parametrize(
    "store",
    [
        Store("rows", int, kind=StoreKind.WINDOW, retention=DAY),
        Store("rows", int, kind=StoreKind.VERSIONED, history=DAY),
        Store("rows", int, kind=StoreKind.TTL, ttl=DAY),
    ],
)
def test_a_time_that_no_reader_can_show_does_not_expire_the_other_rows(store: Store[Any]) -> None:
    driver = driver_of(store)
    for time in (LATEST_MS - 1, LATEST_MS + 1, LATEST_MS):
        driver.pipe("in", "k", [time % 100, time])
    assert [letter.record.offset for letter in driver.dead_letters] == [1]
    assert [value for _, value in driver.rows("rows")][-1] == LATEST_MS % 100
