"""Ranges of keys whose bytes are in another order are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import Int64Serde
from storekeeper.serdes.struct import serde_of
from storekeeper.stores.layers import keeps_order
from storekeeper.topology import Store, StoreKind, StreamsBuilder, TopologyTestDriver

HOUR = timedelta(hours=1)


class Pair(msgspec.Struct, frozen=True):
    left: int
    right: int


@pytest.mark.parametrize("kind", [int, float, Decimal, bool, datetime, Pair, list, tuple[int, str], dict, int | str])
def test_json_is_not_in_the_order_of_its_values(kind: Any) -> None:
    assert not keeps_order(serde_of(kind))


@pytest.mark.parametrize("kind", [str, bytes, date, UUID, Int64Serde()])
def test_text_bytes_and_what_is_always_equally_long_is(kind: Any) -> None:
    assert keeps_order(serde_of(kind), object())


def test_json_documents_that_are_text_are() -> None:
    assert keeps_order(JsonSerde(), "a")
    assert not keeps_order(JsonSerde(), 5)


READS: dict[StoreKind, list[Callable[[Any], Any]]] = {
    StoreKind.KEY_VALUE: [
        lambda store: store.range(2, None),
        lambda store: store.range(None, 10),
        lambda store: store.reverse_range(2, 10),
        lambda store: store.reverse_range(None, None),
        lambda store: store.reverse_all(),
        lambda store: store.prefix_scan(1),
    ],
    StoreKind.TTL: [lambda store: store.range(2, 10), lambda store: store.reverse_all()],
    StoreKind.WINDOW: [
        lambda store: store.fetch_range(2, 10, 0, 9),
        lambda store: store.backward_fetch_range(None, 10, 0, 9),
    ],
    StoreKind.SESSION: [
        lambda store: store.fetch_range(2, 10),
        lambda store: store.backward_fetch_range(None, 10),
        lambda store: store.find_sessions_range(2, 10, 0, 9),
    ],
}
ALL: dict[StoreKind, Callable[[Any], Any]] = {
    StoreKind.KEY_VALUE: lambda store: store.all(),
    StoreKind.TTL: lambda store: store.range(None, None),
    StoreKind.WINDOW: lambda store: store.fetch_all(0, 9),
    StoreKind.SESSION: lambda store: store.fetch_range(None, None),
}
TIMES = {
    StoreKind.TTL: {"ttl": HOUR},
    StoreKind.WINDOW: {"retention": HOUR},
    StoreKind.SESSION: {"retention": HOUR},
}


def opened(kind: StoreKind, keys: Any) -> Any:
    """A store of a processor in a driver, with a row each for the keys -1, 2, 9, 10 and 100."""

    class Writer:
        def init(self, context: Any) -> None:
            self.store = context.store("s")

        def process(self, key: str, value: int, timestamp_ms: int) -> None:
            if kind is StoreKind.KEY_VALUE:
                self.store.put(value, value)
            elif kind is StoreKind.SESSION:
                self.store.put(value, timestamp_ms, timestamp_ms, value)
            else:
                self.store.put(value, value, timestamp_ms)

    streams = StreamsBuilder("app")
    streams.add_store(Store("s", int, keys=keys, kind=kind, **TIMES.get(kind, {})))  # type: ignore[arg-type]
    streams.stream("in", int).process(Writer, stores=["s"])
    driver = TopologyTestDriver(streams.build())
    for number in (100, 9, -1, 10, 2):
        driver.pipe("in", "k", number, 1)
    return driver.store("s")


@pytest.mark.parametrize("kind", READS)
def test_stores_with_keys_of_numbers(kind: StoreKind) -> None:
    store = opened(kind, int)
    for read in READS[kind]:
        with pytest.raises(InvalidArgumentError, match=r"store s can.t be read in the order of its keys.*Int64Serde"):
            read(store)
    with ALL[kind](store) as rows:
        assert sorted(row[1] for row in rows) == [-1, 2, 9, 10, 100]


def test_numbers_of_eight_bytes_are_read_in_their_order() -> None:
    with opened(StoreKind.KEY_VALUE, Int64Serde()).range(2, 10) as rows:
        assert [key for key, _ in rows] == [2, 9, 10]
    with opened(StoreKind.KEY_VALUE, Int64Serde()).reverse_all() as rows:
        assert [key for key, _ in rows] == [100, 10, 9, 2, -1]
    with opened(StoreKind.WINDOW, Int64Serde()).fetch_range(None, 9, 0, 9) as rows:
        assert [row.key for row, _ in rows] == [-1, 2, 9]
