"""Several partitions as one store: who answers, in which order, and that nothing is left out silently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import IteratorClosedError, NullKeyError, StoreClosedError, StoreUnavailableError
from storekeeper.serdes.integers import Int64Serde
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.composite import MAX_COUNT, composite
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.session import SessionStore
from storekeeper.stores.window import WindowStore
from storekeeper.stores.windowed import Windowed

UTF8 = Utf8Serde()
Rows = KeyValueStore[str, str]


@pytest.fixture
def parts() -> list[Rows]:
    stores = [StoreBuilder(f"rows.{number}").key_value(UTF8, UTF8) for number in range(3)]
    stores[0].put_all([("a", "0"), ("d", "0")])
    stores[1].put_all([("b", "1"), ("ba", "1"), ("é", "1")])
    return stores


@pytest.fixture
def rows(parts: list[Rows]) -> Rows:
    return composite(lambda: parts, UTF8)


ALL = [("a", "0"), ("b", "1"), ("ba", "1"), ("d", "0"), ("é", "1")]


def test_whichever_partition_has_the_key_answers(rows: Rows) -> None:
    assert [rows.get(key) for key in ("a", "b", "absent")] == ["0", "1", None]
    assert rows.get_many(["b", "absent", "a", "b"]) == ["1", None, "0", "1"]
    assert rows.get_many([]) == []


def test_the_first_partition_that_knows_a_key_answers_alone_or_among_many(parts: list[Rows], rows: Rows) -> None:
    parts[1].put("a", "moved away")
    assert (rows.get("a"), rows.get_many(["a"])) == ("0", ["0"])


def test_ranges_include_both_ends_and_are_in_order(rows: Rows) -> None:
    assert list(rows.all()) == ALL
    assert list(rows.reverse_all()) == ALL[::-1]
    assert list(rows.range("b", "d")) == ALL[1:4]
    assert list(rows.reverse_range("b", "d")) == ALL[1:4][::-1]
    assert list(rows.range(key_from=None, key_to="b")) == ALL[:2]
    assert list(rows.range("d", None)) == ALL[3:]
    assert list(rows.range("d", "b")) == []
    assert list(rows.prefix_scan("b")) == ALL[1:3]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2))))
def test_the_order_is_that_of_one_store(entries: list[tuple[int, int]]) -> None:
    serde = Int64Serde()
    one = StoreBuilder("one").key_value(serde, serde)
    parts = [StoreBuilder("part").key_value(serde, serde) for _ in range(3)]
    for key, part in dict(entries).items():
        one.put(key, part)
        parts[part].put(key, part)
    gathered = composite(lambda: parts, serde)
    assert list(gathered.all()) == list(one.all())
    assert list(gathered.reverse_all()) == list(one.reverse_all())


def test_counts_add_up_and_stop_at_64_bits(rows: Rows) -> None:
    @dataclass
    class Huge:
        entries: int

        def approximate_num_entries(self) -> int:
            return self.entries

    assert rows.approximate_num_entries() == 5
    huge = cast("list[Rows]", [Huge(MAX_COUNT), Huge(1)])
    assert composite(lambda: huge, UTF8).approximate_num_entries() == 2**63 - 1


def test_the_partitions_are_looked_up_anew_for_each_call(parts: list[Rows]) -> None:
    def incomplete() -> NoReturn:
        raise StoreUnavailableError("partition 1 is on its way")

    present: list[Rows] = []
    rows = composite(lambda: tuple(present), UTF8)
    assert list(rows.all()) == []
    present += parts
    assert list(rows.all()) == ALL
    gone: Rows = composite(incomplete, UTF8)
    for call in (gone.all, gone.reverse_all, lambda: gone.get("a"), lambda: gone.get_many(["a"])):
        with pytest.raises(StoreUnavailableError):
            call()


def test_none_is_no_key(rows: Rows) -> None:
    none = cast("str", None)
    for call in (lambda: rows.get(none), lambda: rows.get_many(["a", none]), lambda: rows.prefix_scan(none)):
        with pytest.raises(NullKeyError):
            call()


def test_a_closed_partition_fails_the_call(parts: list[Rows], rows: Rows) -> None:
    parts[2].close()
    for call in (rows.all, lambda: rows.get("absent"), lambda: rows.get_many(["a"]), rows.approximate_num_entries):
        with pytest.raises(StoreClosedError):
            call()


@pytest.mark.parametrize("peeked", [False, True])
def test_a_partition_that_closes_meanwhile_never_ends_a_scan_silently(
    parts: list[Rows], rows: Rows, *, peeked: bool
) -> None:
    scan = rows.all()
    assert next(scan) == ALL[0]
    if peeked:
        scan.peek()
    parts[1].close()
    for _ in range(3):
        with pytest.raises(IteratorClosedError):
            next(scan) if peeked else list(scan)


def test_closing_a_scan_closes_those_of_all_partitions(parts: list[Rows], rows: Rows) -> None:
    with rows.all() as scan:
        next(scan)
        assert [len(part.open_iterators) for part in parts] == [1, 1, 0]
    assert [len(part.open_iterators) for part in parts] == [0, 0, 0]
    with pytest.raises(IteratorClosedError):
        next(scan)
    assert [part.open_iterators.leaked_total for part in parts] == [0, 0, 0]


@pytest.fixture
def window_parts() -> Sequence[WindowStore[str, str]]:
    stores = [
        StoreBuilder(f"windows.{number}").window(UTF8, UTF8, window_size_ms=10, retention_ms=1000)
        for number in range(2)
    ]
    for start_ms in (0, 10):
        stores[0].put("a", "0", start_ms)
        stores[0].put("aaa", "0", start_ms)
        stores[1].put("aa", "1", start_ms)
    return stores


def test_windows_of_several_partitions(window_parts: Sequence[WindowStore[str, str]]) -> None:
    store = composite(lambda: window_parts, UTF8)
    every = [
        (Windowed(key, start_ms, start_ms + 10), str(len(key) % 2 ^ 1))
        for key in ("a", "aa", "aaa")
        for start_ms in (0, 10)
    ]
    assert [store.fetch_one(key, 10) for key in ("a", "aa", "b")] == ["0", "1", None]
    assert list(store.fetch("aa", 0, 10)) == [(0, "1"), (10, "1")]
    assert list(store.backward_fetch("aa", 0, 10)) == [(10, "1"), (0, "1")]
    assert list(store.fetch("b", 0, 10)) == []
    assert list(store.fetch("aa", 1, 9)) == []
    assert list(store.all()) == list(store.fetch_all(0, 10)) == every
    assert list(store.backward_all()) == list(store.backward_fetch_all(0, 10)) == every[::-1]
    assert list(store.fetch_all(1, 10)) == every[1::2]
    assert list(store.fetch_range("aa", None, 0, 10)) == every[2:]
    assert list(store.backward_fetch_range(None, "aa", 0, 9)) == [every[2], every[0]]
    assert [len(part.open_iterators) for part in window_parts] == [0, 0]


@pytest.fixture
def session_parts() -> Sequence[SessionStore[str, str]]:
    stores = [StoreBuilder(f"sessions.{number}").session(UTF8, UTF8, retention_ms=1000) for number in range(2)]
    stores[0].put("a", 0, 5, "0")
    stores[0].put("aaa", 3, 5, "0")
    stores[1].put("aa", 1, 5, "1")
    stores[1].put("aa", 7, 9, "1")
    return stores


def test_sessions_of_several_partitions(session_parts: Sequence[SessionStore[str, str]]) -> None:
    store = composite(lambda: session_parts, UTF8)
    first, second = (Windowed("aa", 1, 5), "1"), (Windowed("aa", 7, 9), "1")
    every = [(Windowed("a", 0, 5), "0"), first, second, (Windowed("aaa", 3, 5), "0")]
    assert [store.fetch_session("aa", 1, end_ms) for end_ms in (5, 6)] == ["1", None]
    assert list(store.find_sessions("aa", 5, 7)) == list(store.fetch("aa")) == [first, second]
    assert list(store.backward_find_sessions("aa", 5, 7)) == list(store.backward_fetch("aa")) == [second, first]
    assert list(store.find_sessions("aa", 6, 6)) == list(store.fetch("b")) == []
    assert list(store.find_sessions_range("a", "aa", 0, 1)) == every[:2]
    assert list(store.backward_find_sessions_range("a", "aa", 0, 1)) == every[:2][::-1]
    assert list(store.find_sessions_ended(6, 9)) == [second]
    assert list(store.fetch_range(None, None)) == every
    assert list(store.backward_fetch_range(None, "aa")) == every[:3][::-1]
    assert [len(part.open_iterators) for part in session_parts] == [0, 0]


def test_without_partitions_there_are_no_rows() -> None:
    windows: WindowStore[str, str] = composite(tuple, UTF8)
    assert (windows.fetch_one("a", 0), list(windows.fetch("a", 0, 1)), list(windows.all())) == (None, [], [])


@pytest.mark.parametrize("name", ["put", "put_all", "expire", "flush", "close", "restore_batch", "layers", "context"])
def test_it_only_reads(rows: Rows, name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(rows, name)
    with pytest.raises(AttributeError):
        rows.put = print  # type: ignore[method-assign, assignment]
