"""A careful run takes back what a record has changed. Its work grows with the number of records alone."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from storekeeper.errors import SerializationError
from storekeeper.stores.suppliers import MemorySupplier
from storekeeper.topology import Store, StreamsBuilder, until_limit
from storekeeper.topology.careful_task import CarefulTask
from storekeeper.topology.records import Record
from storekeeper.topology.times import TimeKind
from tests.topology.careful_kinds import KINDS, MS, OVERSIZE, bad, check_size, prepared


def calls_of(kind: str, number: int) -> int:
    """How many calls, reads of rows among them, a careful run makes."""
    run, calls = prepared(kind, number), Counter[str]()

    def count(_frame: object, event: str, _argument: object) -> None:
        calls[event] += 1

    sys.setprofile(count)
    try:
        batch = run()
    finally:
        sys.setprofile(None)
    waits = 5 if kind in {"released", "closed"} else 0
    assert bad(kind, number) - waits <= len(batch.dead_letters) <= bad(kind, number)
    return calls["call"] + calls["c_call"]


@pytest.mark.parametrize("kind", KINDS)
def test_twice_as_many_records_take_twice_the_work(kind: str) -> None:
    one, two, four = (calls_of(kind, number) for number in (200, 400, 800))
    assert four - two < 2.2 * (two - one)


def task_of(describe: Callable[[StreamsBuilder], object]) -> CarefulTask:
    streams = StreamsBuilder("app")
    describe(streams)
    (sub,) = streams.build().sub_topologies
    return CarefulTask(sub, 0, MemorySupplier(), check_change=check_size)


def given(*values: int) -> list[Record]:
    return [Record("one", 0, at, 10 * at, b"k", b"%d" % value, ()) for at, value in enumerate(values)]


def test_a_row_that_a_function_has_changed_before_it_failed_is_as_it_was() -> None:
    def add(total: list[int], value: int) -> list[int]:
        total.append(value)
        return total if value else [1 // value]

    def describe(streams: StreamsBuilder) -> None:
        streams.stream("one", int).group_by_key().aggregate(list, add, store=Store("lists", list))

    task = task_of(describe)
    task.process(given(1, 0, 2, 0, 3))
    batch = task.end_batch()
    assert [change.value for change in batch.changes] == [b"[1,2,3]"]
    assert len(batch.dead_letters) == 2


class Counting:
    """Counts in memory, as nobody should, and begins again from its store."""

    def init(self, context: Any) -> None:
        self._context = context
        self._store = context.store("counts")
        self._count = self._store.get("all") or 0
        context.schedule(5, TimeKind.STREAM_TIME, self.tick)

    def process(self, key: str, value: int, _: int) -> None:
        self._count += 1
        self._store.put("all", self._count)
        self._context.forward(key, self._count)
        if value == 0:
            raise ValueError

    def tick(self, now_ms: int) -> None:
        self._context.forward("tick", now_ms)


def test_a_processor_is_made_anew_where_a_record_is_left_out_that_it_had_taken() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.add_store(Store("counts", int))
        streams.stream("one", int).process(Counting, stores=["counts"], values=int).to("out")

    task = task_of(describe)
    task.process(given(1, 0, 2, 0, 3))
    batch = task.end_batch()
    assert [(key, value) for key, value, *_ in batch.outputs["out"]] == [
        (b"k", b"1"), (b"tick", b"0"), (b"k", b"2"), (b"tick", b"20"), (b"k", b"3"), (b"tick", b"40"),
    ]  # fmt: skip
    assert [letter.record.offset for letter in batch.dead_letters] == [1, 3]


class Writing:
    """A timer that writes what can't be written."""

    def init(self, context: Any) -> None:
        self._store = context.store("texts")
        context.schedule(10, TimeKind.STREAM_TIME, self.tick)

    def process(self, _key: str, _value: int, _timestamp_ms: int) -> None:
        pass

    def tick(self, now_ms: int) -> None:
        self._store.put("k", OVERSIZE if now_ms else "")


def test_no_record_is_to_blame_for_what_a_timer_writes() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.add_store(Store("texts", str))
        streams.stream("one", int).process(Writing, stores=["texts"], values=int).to("out")

    task = task_of(describe)
    with pytest.raises(SerializationError, match="too large"):
        task.process(given(1, 2))


def test_a_released_row_that_can_not_be_written_is_left_out_and_not_the_record_that_lets_it_go() -> None:
    def describe(streams: StreamsBuilder) -> None:
        newest = streams.stream("one", int).to_table(store=Store("newest", int)).suppress(until_limit(15 * MS))
        newest.map_values(lambda value: OVERSIZE if value == 1 else "", values=str, store=Store("texts", str))

    task = task_of(describe)
    keyed = [record._replace(key=b"%d" % at) for at, record in enumerate(given(1, 2, 3, 4))]
    task.process(keyed)
    batch = task.end_batch()
    assert [(letter.record.key, letter.record.offset) for letter in batch.dead_letters] == [(b"0", -1)]
    assert {change.key for change in batch.changes if change.store == "texts"} == {b"1"}
