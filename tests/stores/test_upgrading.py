"""Two stores as one while rows move to a new format: the same answers wherever the move was cut off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.bytes_store import NO_METADATA, Entry, is_empty
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.suppliers import RocksDBSupplier
from storekeeper.stores.upgrading import UpgradingStore

UTF8 = Utf8Serde()
KEYS = st.sampled_from([b"", b"a", b"b", b"ba", b"\xff"])
OLD = st.dictionaries(KEYS, st.just(b"old"))
STEPS = st.lists(
    st.tuples(st.sampled_from(["get", "put", "delete"]), KEYS) | st.tuples(st.just("upgrade"), st.integers(1, 3)),
    max_size=10,
)  # fmt: skip


def convert(old: bytes) -> bytes:
    return b"new:" + old


def upgrading(rows: dict[bytes, bytes]) -> UpgradingStore:
    old = MemoryStore("rows")
    old.write(rows.items())
    return UpgradingStore(MemoryStore("rows.new"), old, convert)


@given(OLD, STEPS)
def test_whatever_moved_answers_are_the_same(rows: dict[bytes, bytes], steps: list[tuple[str, bytes | int]]) -> None:
    store, model = upgrading(rows), {key: convert(value) for key, value in rows.items()}
    for step, argument in steps:
        if isinstance(argument, int):
            assert store.upgrade(argument) <= argument
        elif step == "get":
            assert store.get(argument) == model.get(argument)
            assert store.old.get(argument) is None
        else:
            value = b"new:put" if step == "put" else None
            store.write([(argument, value)])
            model.pop(argument, None)
            if value is not None:
                model[argument] = value
            assert store.old.get(argument) is None
        assert list(store.scan(None, None)) == sorted(model.items())
        assert list(store.scan(b"a", b"c", reverse=True)) == sorted(
            ((key, value) for key, value in model.items() if b"a" <= key < b"c"), reverse=True
        )
        assert store.get_many([b"ba", b"absent", b"a"]) == [model.get(b"ba"), None, model.get(b"a")]
        assert store.approximate_num_entries() == len(model)


def test_looking_moves_nothing() -> None:
    store = upgrading({b"a": b"1", b"b": b"2"})
    assert list(store.scan(None, None)) == [(b"a", b"new:1"), (b"b", b"new:2")]
    assert store.get_many([b"b", b"a"]) == [b"new:2", b"new:1"]
    assert list(store.old.scan(None, None)) == [(b"a", b"1"), (b"b", b"2")]
    assert is_empty(store.inner)


def test_reading_by_key_moves_the_row() -> None:
    store = upgrading({b"a": b"1"})
    assert store.get(b"a") == b"new:1"
    assert (is_empty(store.old), store.inner.get(b"a")) == (True, b"new:1")


def test_upgrading_in_steps_says_when_the_old_store_is_empty() -> None:
    store = upgrading({b"a": b"1", b"b": b"2", b"c": b"3"})
    store.inner.write([(b"b", b"newer")])
    assert [store.upgrade(2), store.upgrade(2), store.upgrade(2)] == [2, 1, 0]
    assert is_empty(store.old)
    assert list(store.inner.scan(None, None)) == [(b"a", b"new:1"), (b"b", b"newer"), (b"c", b"new:3")]


def test_a_row_in_both_stores_is_the_new_one() -> None:
    store = upgrading({b"a": b"1"})
    store.inner.write([(b"a", b"newer")])
    assert (store.get(b"a"), list(store.scan(None, None)), store.get_many([b"a"])) == (
        b"newer", [(b"a", b"newer")], [b"newer"],
    )  # fmt: skip
    assert list(store.scan(None, None, reverse=True)) == [(b"a", b"newer")]


def test_a_deleted_range_leaves_both() -> None:
    store = upgrading({b"a": b"1", b"c": b"3"})
    store.inner.write([(b"b", b"2")])
    store.delete_range(b"a", b"c")
    assert (list(store.scan(None, None)), is_empty(store.inner)) == ([(b"c", b"new:3")], True)


class CrashError(Exception):
    """The process ends here."""


class Crashing(MemoryStore):
    """A store at whose n-th write the process ends."""

    def __init__(self, name: str, writes: list[int]) -> None:
        super().__init__(name)
        self.writes = writes

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        if not self.writes[0]:
            raise CrashError
        self.writes[0] -= 1
        super().write(entries, metadata)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_move_that_is_cut_off_anywhere_loses_no_row_and_revives_none(writes: int) -> None:
    left = [2]
    old, new = Crashing("rows", left), Crashing("rows.new", left)
    old.write([(b"kept", b"1"), (b"deleted", b"1")])
    store = UpgradingStore(new, old, convert)
    left[0] = writes
    with pytest.raises(CrashError):
        store.write([(b"deleted", None), (b"kept", b"new:2")])
    left[0] = 100
    again = UpgradingStore(new, old, convert)
    assert again.get(b"kept") == (b"new:1" if writes < 2 else b"new:2")
    assert again.get(b"deleted") == (b"new:1" if writes == 0 else None)
    again.write([(b"deleted", None)])
    assert [key for key, _ in again.scan(None, None)] == [b"kept"]


def test_closing_closes_both_and_what_scans_pin() -> None:
    store = upgrading({b"a": b"1"})
    store.inner.write([(b"b", b"2")])
    with store.scan(None, None) as rows:
        next(rows)
        assert (len(store.old.open_iterators), len(store.open_iterators)) == (1, 1)
    assert (len(store.old.open_iterators), len(store.open_iterators)) == (0, 0)
    store.close()
    assert not store.old.is_open
    assert not store.inner.is_open


def test_a_plain_store_becomes_a_timestamped_one_row_by_row(tmp_path: Path) -> None:
    builder = StoreBuilder("rows", RocksDBSupplier(tmp_path))
    plain = builder.key_value(UTF8, UTF8)
    plain.put_all([("a", "1"), ("b", "2")])
    plain.close()
    store = builder.upgraded_key_value(UTF8, UTF8)
    store.put("b", ValueAndTimestamp("3", 5))
    assert list(store.all()) == [("a", ValueAndTimestamp("1", -1)), ("b", ValueAndTimestamp("3", 5))]
    assert store.get("a") == ValueAndTimestamp("1", -1)
    store.close()
    done = builder.upgraded_key_value(UTF8, UTF8)
    assert not isinstance(done.layers.backend, UpgradingStore)
    assert list(done.all()) == [("a", ValueAndTimestamp("1", -1)), ("b", ValueAndTimestamp("3", 5))]
    done.close()
