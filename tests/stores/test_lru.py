"""The bounded store: what goes, in which order, what its changelog says of it, and what a restore makes of that."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper import Store, StoreKind, StreamsBuilder
from storekeeper.errors import ConfigurationError, StoreClosedError
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.memory import LruStore
from storekeeper.topology.records import StoreChange
from tests.stores.task_store import TaskStore, store_spec

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
OPERATIONS = st.lists(
    st.tuples(st.just("get"), KEYS) | st.tuples(st.sampled_from(["put", "delete"]), KEYS), max_size=30
)
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.none() | st.sampled_from(["1", "2"])), max_size=6), max_size=6)


def bounded(max_rows: int, log: list[StoreChange] | None = None, *, timestamped: bool = False) -> TaskStore:
    options: Store[Any] = Store("rows", backend="memory", max_rows=max_rows)
    return TaskStore(store_spec(options=options, timestamped=timestamped), log=log)


def replayed(log: list[StoreChange]) -> dict[bytes, bytes]:
    """What a restore makes of the changelog: the last record of each key, in a store without a bound."""
    last = {change.key: change.value for change in log}
    return {key: value for key, value in last.items() if value is not None}


@given(OPERATIONS, st.integers(1, 4))
def test_the_row_that_was_not_used_for_longest_goes(operations: list[tuple[str, str]], max_rows: int) -> None:
    task, model = bounded(max_rows), OrderedDict[str, str]()
    for operation, key in operations:
        if operation == "get":
            assert task.store.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
            continue
        task.store.put(key, "1" if operation == "put" else None)
        task.end_batch()
        model.pop(key, None)
        if operation == "put":
            model[key] = "1"
        if len(model) > max_rows:
            model.popitem(last=False)
    assert list(task.store.all()) == sorted(model.items())


@given(BATCHES, st.integers(1, 3), st.booleans())
def test_a_changelog_holds_exactly_the_rows_of_the_store(
    batches: list[list[tuple[str, str | None]]], max_rows: int, timestamped: bool
) -> None:
    from storekeeper.serdes.timestamped import ValueAndTimestamp

    task = bounded(max_rows, timestamped=timestamped)
    for batch in batches:
        for key, value in batch:
            task.store.put(key, ValueAndTimestamp(value, 5) if timestamped and value is not None else value)
        task.end_batch()
        with task.backend.scan(None, None) as rows:
            kept = dict(rows)
        assert replayed(task.log).keys() == kept.keys()
        assert len(kept) <= max_rows


@given(BATCHES, st.integers(1, 3))
def test_what_is_too_much_for_a_smaller_store_leaves_it_with_the_next_batch(
    batches: list[list[tuple[str, str | None]]], max_rows: int
) -> None:
    first = bounded(5)
    for batch in batches:
        first.store.put_all(batch)
        first.end_batch()
    restored = bounded(max_rows, first.log)
    restored.end_batch()
    with restored.backend.scan(None, None) as rows:
        kept = dict(rows)
    assert replayed(restored.log) == kept
    assert len(kept) <= max_rows


def test_scans_refresh_nothing_but_bulk_reads_do() -> None:
    task = bounded(2)
    for key in ("a", "b"):
        task.store.put(key, "1")
        task.end_batch()
    list(task.store.reverse_all())
    task.store.put("c", "1")
    task.end_batch()
    assert [key for key, _ in task.store.all()] == ["b", "c"]
    assert task.store.get_many(["b", "x"]) == ["1", None]
    task.store.put("d", "1")
    task.end_batch()
    assert [key for key, _ in task.store.all()] == ["b", "d"]


def test_of_a_batch_with_more_rows_than_room_the_last_stay() -> None:
    task = bounded(2)
    task.store.put_all([("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"), ("d", None)])
    assert [key for key, _ in task.store.all()] == ["a", "b", "c"], "a batch sees all that it has written"
    task.end_batch()
    assert list(task.store.all()) == [("a", "2"), ("c", "1")]
    assert [change.key for change in task.log if change.value is None] == [b"d", b"b"]


def test_a_task_that_is_given_up_evicts_nothing() -> None:
    task = bounded(1)
    task.store.put("a", "1")
    task.end_batch()
    task.store.put("b", "1")
    task.give_up()
    assert [key for key, _ in task.store.all()] == ["a"]


def test_a_deleted_range_makes_room() -> None:
    store = LruStore("rows", 3)
    store.write([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    store.delete_range(b"a", b"c")
    entries: list[Entry] = [(b"d", b"1"), (b"e", b"1")]
    assert store.excess(entries) == []
    assert store.excess([*entries, (b"f", b"1")]) == [b"c"]


@pytest.mark.parametrize("max_rows", [0, -1])
def test_there_must_be_room_for_a_row(max_rows: int) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        Store("rows", backend="memory", max_rows=max_rows)
    with pytest.raises(ConfigurationError, match="at least one row"):
        LruStore("rows", max_rows)


@pytest.mark.parametrize("kind", [StoreKind.WINDOW, StoreKind.SESSION, StoreKind.TTL, StoreKind.VERSIONED])
def test_kinds_whose_rows_belong_together_are_refused(kind: StoreKind) -> None:
    hour = timedelta(hours=1)
    times = {StoreKind.VERSIONED: {"history": hour}, StoreKind.TTL: {"ttl": hour}}.get(kind, {"retention": hour})
    options: Any = {"kind": kind, "backend": "memory", "max_rows": 5, **times}
    with pytest.raises(ConfigurationError, match="its rows belong together"):
        StreamsBuilder("app").add_store(Store("rows", int, **options))


def test_everything_raises_after_close() -> None:
    store = LruStore("rows", 2)
    store.write([(b"a", b"1")])
    store.close()
    store.close()
    calls = (
        lambda: store.get(b"a"),
        lambda: store.get_many([]),
        lambda: store.write([]),
        lambda: store.scan(None, None),
    )
    for call in calls:
        with pytest.raises(StoreClosedError):
            call()
