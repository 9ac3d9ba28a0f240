"""Metering: each call is timed once under its operation, and nothing of its result changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores import metered
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.metered import OPERATIONS, MeteredStore

UTF8 = Utf8Serde()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MeteredStore:
    """A store over a clock that goes on by 1000 ns whenever it is read."""
    ticks = itertools.count(0, 1000)
    monkeypatch.setattr(metered, "perf_counter_ns", lambda: next(ticks))
    store = MeteredStore(MemoryStore("rows"))
    store.inner.write([(b"a", b"1"), (b"b", b"2")])
    return store


CALLS: dict[str, Callable[[MeteredStore], object]] = {
    "get": lambda store: store.get(b"a"),
    "get_many": lambda store: store.get_many([b"a", b"b", b"c"]),
    "put": lambda store: store.write(((b"c", b"3"),)),
    "put_all": lambda store: store.write([(b"c", b"3"), (b"d", b"4")]),
    "range": lambda store: list(store.scan(None, None)),
    "flush": MeteredStore.flush,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_call_is_timed_once_however_many_rows_it_has(store: MeteredStore, operation: str) -> None:
    for _ in range(3):
        CALLS[operation](store)
    counted = {name: (recorder.count, recorder.total_ns) for name, recorder in store.latencies.items()}
    assert counted == {name: (3, 3000) if name == operation else (0, 0) for name in OPERATIONS}
    assert store.latencies[operation].counts[(1000).bit_length()] == 3


def test_results_go_through(store: MeteredStore) -> None:
    assert (store.get(b"a"), store.get(b"x"), store.get_many([b"b", b"x"])) == (b"1", None, [b"2", None])
    assert [key for key, _ in store.scan(b"b", None, reverse=True)] == [b"b"]
    store.write([(b"a", None)], {b"m": b"x"})
    assert (store.inner.get(b"a"), store.metadata(b"m"), store.approximate_num_entries()) == (None, b"x", 1)


def test_a_stores_calls_are_told_apart_by_how_many_rows_they_may_have() -> None:
    store = StoreBuilder("rows").key_value(UTF8, UTF8)
    store.put("a", "1")
    store.put_all([("b", "1")])
    store.delete("a")
    recorders = store.layers.metered
    assert recorders is not None
    assert {name: recorder.count for name, recorder in recorders.latencies.items()} == {
        "get": 1, "get_many": 0, "put": 2, "put_all": 1, "range": 0, "flush": 0,
    }  # fmt: skip
