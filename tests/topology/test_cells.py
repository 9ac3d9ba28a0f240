"""Rows stay decoded while a batch runs: what is read, what is written, and that nobody sees a difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.serdes.timestamped import STAMP_BYTES
from storekeeper.stores.bytes_store import BytesIterator
from storekeeper.stores.memory import MemoryStore
from storekeeper.topology import (
    EmitStrategy,
    Store,
    StreamsBuilder,
    SubTopology,
    TopologyTestDriver,
    hopping,
    sessions,
    tumbling,
)
from storekeeper.topology.records import Record, StoreChange
from storekeeper.topology.task import Task
from storekeeper.topology.task_stores import restore
from storekeeper.trace_context import TRACEPARENT
from tests.test_trace_context import TRACE

MS = timedelta(milliseconds=1)
Given = Sequence[tuple[str, int, int]]
"""Key, value, timestamp."""


class Counting(MemoryStore):
    """Counts reads."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return super().get(key)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> BytesIterator:
        self.reads += 1
        return super().scan(start, stop, reverse=reverse)


class Kept:
    """Stores that outlive their task."""

    def __init__(self) -> None:
        self.stores: dict[str, Counting] = {}

    def open(self, name: str) -> Counting:
        return self.stores.setdefault(name, Counting(name))


def add(total: int, value: int) -> int | None:
    return total + value if value else None


def windows() -> SubTopology:
    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key().windowed_by(tumbling(10 * MS, grace=25 * MS))
    grouped.aggregate(int, add, store=Store("rows", int)).to_stream().map(
        lambda window, value: (window.key, [window.start_ms, value]), values=list
    ).to("out")
    (sub,) = streams.build().sub_topologies
    return sub


def hops() -> SubTopology:
    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key()
    hopping_windows = grouped.windowed_by(hopping(10 * MS, advance=4 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE)
    hopping_windows.aggregate(int, add, store=Store("rows", int)).to_stream().map(
        lambda window, value: (window.key, [window.start_ms, value]), values=list
    ).to("out")
    (sub,) = streams.build().sub_topologies
    return sub


def visits() -> SubTopology:
    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key().windowed_by(sessions(4 * MS, grace=25 * MS))
    grouped.aggregate(int, add, lambda one, two: one + two, store=Store("rows", int)).to_stream().map(
        lambda session, value: (session.key, [session.start_ms, session.end_ms, value]), values=list
    ).to("out")
    (sub,) = streams.build().sub_topologies
    return sub


def given_records(rows: Given) -> list[Record]:
    return [Record("in", 0, at, time, key.encode(), b"%d" % value) for at, (key, value, time) in enumerate(rows)]


def run(sub: SubTopology, rows: Given, cuts: Sequence[int], *, restores: bool) -> tuple[list[Any], dict[bytes, Any]]:
    """Outputs and the last change of each row. Each batch has a task of its own, over what is kept or restored."""
    supplier, progress, outputs, log = Kept(), b"{}", list[Any](), list[StoreChange]()
    records = given_records(rows)
    ends = sorted({min(cut, len(records)) for cut in cuts} | {len(records)})
    for start, end in zip([0, *ends], ends, strict=False):
        if restores:
            supplier = Kept()
            for spec in sub.stores:
                restore(spec, supplier.open(spec.name), log)
        task = Task(sub, 0, supplier, progress=progress)
        task.process(records[start:end])
        ended = task.end_batch()
        task.apply()
        progress, log = ended.progress, [*log, *ended.changes]
        outputs += ended.outputs.get("out", ())
    return outputs, {change.key: change for change in log if change.value is not None or change.key}


def rows_of(changes: dict[bytes, StoreChange]) -> dict[bytes, tuple[bytes | None, int]]:
    return {key: (change.value, change.timestamp_ms) for key, change in changes.items() if change.value is not None}


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 80)), max_size=25)


@settings(max_examples=150)
@given(
    sub=st.sampled_from([windows(), hops(), visits()]),
    rows=ROWS,
    cuts=st.lists(st.integers(0, 25), max_size=8),
    restores=st.booleans(),
)
def test_rows_are_those_of_records_taken_one_by_one(
    sub: SubTopology, rows: Given, cuts: list[int], restores: bool
) -> None:
    one_by_one, wanted = run(sub, rows, range(len(rows)), restores=False)
    outputs, changes = run(sub, rows, cuts, restores=restores)
    assert outputs == one_by_one
    assert rows_of(changes) == rows_of(wanted)


def test_a_late_record_finds_its_window_in_the_store() -> None:
    for restores in (False, True):
        outputs, _ = run(windows(), [("a", 1, 5), ("a", 1, 15), ("a", 2, 7)], [1, 2], restores=restores)
        assert [value for _, value, *_ in outputs] == [b"[0,1]", b"[10,1]", b"[0,3]"]


def test_a_late_record_finds_the_sessions_that_it_bridges() -> None:
    for cuts in ([], [1], [2], [1, 2]):
        outputs, changes = run(visits(), [("a", 1, 1), ("a", 2, 9), ("a", 4, 5)], cuts, restores=False)
        assert outputs[-1][1] == b"[1,9,7]"
        assert [value for value, _ in rows_of(changes).values()] == [b"7"]


def test_an_expired_session_is_not_bridged_whether_the_store_still_has_it() -> None:
    for cuts in ([], [1], [2]):
        outputs, _ = run(visits(), [("a", 1, 49), ("b", 1, 80), ("a", 2, 53)], cuts, restores=False)
        assert outputs[-1][1] == b"[53,53,2]"


@pytest.mark.parametrize("sub", [windows(), visits()])
def test_a_row_that_the_store_takes_no_more_is_not_there_for_the_next_record(sub: SubTopology) -> None:
    """A task that has lost its progress learns from its store how late a record is."""
    supplier = Kept()
    task = Task(sub, 0, supplier)
    task.process(given_records([("b", 1, 100)]))
    task.end_batch()
    task.apply()
    task = Task(sub, 0, supplier)
    task.process(given_records([("a", 1, 5), ("a", 1, 5)]))
    ended = task.end_batch()
    assert not ended.changes
    assert {value for _, value, *_ in ended.outputs["out"]} in ({b"[0,1]"}, {b"[5,5,1]"})
    assert task.store("rows").stream_time.dropped_total == 2


def test_a_session_that_was_written_in_between_is_deleted() -> None:
    task = Task(visits(), 0, Kept())
    task.process(given_records([("a", 1, 1)]))
    assert len(list(task.store("rows").fetch("a"))) == 1
    task.process(given_records([("a", 1, 3)]))
    assert [session.end_ms for session, _ in task.store("rows").fetch("a")] == [3]


def test_a_session_that_comes_and_goes_in_a_batch_is_not_written() -> None:
    growing = [("a", 1, time) for time in range(0, 40, 4)]
    _, changes = run(visits(), growing, [], restores=False)
    assert len(changes) == 1
    _, changes = run(visits(), growing, [5], restores=False)
    assert sorted(change.value is None for change in changes.values()) == [False, True]


def test_a_session_is_looked_up_once_and_not_after_the_stores_stream_time() -> None:
    supplier = Kept()
    task = Task(visits(), 0, supplier)
    store = supplier.stores["rows"]
    store.reads = 0
    task.process(given_records([(f"k{at % 5}", 1, at) for at in range(100)]))
    assert store.reads == 0
    task.end_batch()
    task.apply()
    task.process(given_records([(f"k{at % 5}", 1, 100 + at) for at in range(100)]))
    # A scan of each segment and key: of those whose first record may belong to a session of the batch before.
    assert store.reads <= 5


def test_a_window_that_starts_after_the_stores_stream_time_is_not_looked_up() -> None:
    supplier = Kept()
    task = Task(windows(), 0, supplier)
    store = supplier.stores["rows"]
    for start_ms in (0, 10, 20):
        store.reads = 0
        task.process(given_records([(f"k{at % 50}", 1, start_ms + at % 10) for at in range(200)]))
        assert store.reads == 0
        # One read a row of a window that may be there, however many records it gets.
        task.process(given_records([(f"n{at % 5}", 1, max(0, start_ms - 5)) for at in range(20)]))
        assert store.reads <= 5
        task.end_batch()
        task.apply()


def test_who_reads_the_store_in_a_batch_sees_its_rows_and_who_writes_it_is_seen() -> None:
    task = Task(windows(), 0, Kept())
    store = task.store("rows")
    task.process(given_records([("a", 1, 5)]))
    row = store.fetch_one("a", 0)
    assert (row.value, [key.start_ms for key, _ in store.all()]) == (1, [0])
    task.process(given_records([("a", 1, 5)]))
    assert [row.value for _, row in store.fetch("a", 0, 10)] == [2]
    store.put("a", type(row)(40, 6), 0)
    task.process(given_records([("a", 2, 5)]))
    assert store.fetch_one("a", 0) == type(row)(42, 6)


def test_who_writes_the_store_in_a_batch_or_reads_several_rows_loses_none() -> None:
    task = Task(windows(), 0, Kept())
    store = task.store("rows")
    task.process(given_records([("a", 1, 5)]))
    row = store.fetch_one("a", 0)
    task.process(given_records([("a", 1, 6)]))
    store.put("b", type(row)(40, 6), 0)
    assert sorted(key.key for key, _ in store.all()) == ["a", "b"]
    task.process(given_records([("a", 1, 7)]))
    keys = [window_row_key(key, 0) for key in (b"a", b"b")]
    values = [data[STAMP_BYTES:] for data in store.layers.top.get_many(keys)]
    assert values == [b"3", b"40"]
    assert sorted(change.value or b"" for change in task.end_batch().changes) == [b"3", b"40"]


def test_a_row_that_was_deleted_does_not_lend_its_time_to_the_next_one() -> None:
    outputs, changes = run(windows(), [("a", 1, 8), ("a", 0, 9), ("a", 2, 3)], [], restores=False)
    assert [(value, timestamp_ms) for _, value, timestamp_ms, _ in outputs] == [
        (b"[0,1]", 8),
        (b"[0,null]", 9),
        (b"[0,2]", 3),
    ]
    assert list(rows_of(changes).values()) == [(b"2", 3)]


def test_a_change_has_the_trace_of_the_record_that_made_it_last() -> None:
    task = Task(windows(), 0, Kept())
    traced = ((TRACEPARENT, TRACE),)
    one, two, three, four = given_records([("a", 1, 1), ("b", 1, 2), ("a", 1, 3), ("c", 1, 4)])
    task.process([one._replace(headers=traced), two._replace(headers=traced), three, four])
    traces = {change.key[:1]: change.trace for change in task.end_batch().changes}
    assert traces == {b"a": None, b"b": TRACE, b"c": None}


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_a_record_that_fails_below_leaves_sessions_as_they_were(bad: int) -> None:
    def small(_: object, total: int | None) -> bool:
        if total is not None and total >= 100:
            raise ValueError
        return True

    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key().windowed_by(sessions(4 * MS, grace=25 * MS))
    rows = grouped.aggregate(int, add, lambda one, two: one + two, store=Store("rows", int))
    rows.to_stream().filter(small).map(
        lambda session, value: (session.key, [session.start_ms, session.end_ms, value]), values=list
    ).to("out")
    records = [("a", 1, 1), ("a", 2, 9), ("a", 4, 5), ("a", 8, 12)]
    records[bad] = ("a", 100, records[bad][2])
    driver = TopologyTestDriver(streams.build())
    for key, value, time in records:
        driver.append("in", key, value, time)
    driver.run()
    outputs, changes = run(visits(), records[:bad] + records[bad + 1 :], range(9), restores=False)
    assert [letter.record.offset for letter in driver.dead_letters] == [bad]
    assert [value for _, value, *_ in driver.read("out")] == [json.loads(value) for _, value, *_ in outputs]
    assert [value for _, value in driver.rows("rows")] == [int(value or 0) for value, _ in rows_of(changes).values()]


def versioned() -> SubTopology:
    streams = StreamsBuilder("app")
    rows = streams.stream("rows", int).to_table(store=Store("rows", int, history=20 * MS))
    streams.stream("in", int).left_join(rows, lambda one, row: [one, row], values=list).to("out")
    (sub,) = streams.build().sub_topologies
    return sub


Step = tuple[str, str, int, int]
"""What to do, with a key, a value, and a time."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "as of", "as of", "get", "settle", "commit"]), st.sampled_from("aab"),
        st.integers(0, 3), st.sampled_from([-1, 0, 1, 2, 10, 20, 21, 22, 30, 40]),
    ),
    min_size=12, max_size=30,
)  # fmt: skip


def steps_taken(task: Task, rows: Any, steps: Sequence[Step]) -> list[Any]:
    answers: list[Any] = []
    for what, key, value, time in steps:
        if what == "put":
            answers.append(rows.put(key, value or None, max(time, 0)))
        elif what in {"get", "as of"}:
            answers.append(rows.get(key, time if what == "as of" else None))
        elif what == "settle":
            answers.append(list(task.store("rows").all()))
        else:
            answers.append(
                sorted((change.key, change.value, change.timestamp_ms) for change in task.end_batch().changes)
            )
            task.apply()
    return answers


@settings(max_examples=300)
@given(steps=STEPS)
def test_versions_as_cells_are_those_of_the_store(steps: list[Step]) -> None:
    one, other = (Task(versioned(), 0, Kept()) for _ in range(2))
    stored = one.store("rows")
    cells = other._wiring.cells(other._wiring.stores["rows"].spec)
    assert steps_taken(other, cells, steps) == steps_taken(one, stored, steps)
    assert cells.stream_time.dropped_total == stored.stream_time.dropped_total


def test_a_version_is_looked_up_once_and_a_later_one_not_at_all() -> None:
    supplier = Kept()
    task = Task(versioned(), 0, supplier)
    store = supplier.stores["rows"]
    store.reads = 0
    keys = [f"k{at % 5}" for at in range(100)]
    task.process(
        record._replace(topic="rows") for record in given_records([(key, 1, at) for at, key in enumerate(keys)])
    )
    assert store.reads == 0
    task.end_batch()
    task.apply()
    store.reads = 0
    task.process(given_records([(key, 1, 100) for key in [*keys, "none", "none"]]))
    assert store.reads == 6


def test_a_version_has_the_trace_of_its_record() -> None:
    task = Task(versioned(), 0, Kept())
    one, two = (record._replace(topic="rows") for record in given_records([("a", 1, 1), ("b", 1, 2)]))
    task.process([one._replace(headers=((TRACEPARENT, TRACE),)), two])
    assert {change.key[:1]: change.trace for change in task.end_batch().changes} == {b"a": TRACE, b"b": None}


def test_all_that_a_batch_makes_unreachable_is_looked_at() -> None:
    task = Task(versioned(), 0, Kept())
    keys = [f"k{at}" for at in range(2000)]

    def tombstones(*times: int) -> int:
        rows = given_records([(key, 1, time) for time in times for key in keys])
        task.process(record._replace(topic="rows") for record in rows)
        changes = task.end_batch().changes
        task.apply()
        return sum(change.value is None for change in changes)

    assert tombstones(0, 1) == 0
    assert tombstones(100) == 2000
