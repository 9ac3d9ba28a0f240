"""A record that an operator can't process is left out, whole, and the rest is as if it had never come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.topology import (
    CrashStep,
    EmitStrategy,
    JoinWindows,
    Store,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
    sessions,
    tumbling,
    until_limit,
    until_window_closes,
)
from state.topology.operators.process import ProcessorContext

MS = timedelta(milliseconds=1)
SITES = 7
"""Operators that fail on the records which carry their number."""
INSIDE = 8
"""The number of an operator behind a repartition."""


def failing(site: int) -> Callable[[Any, int], int]:
    def check(_: Any, value: int) -> int:
        if value // 100 == site:
            raise ValueError(value)
        return value

    return check


def unlucky(value: int) -> bool:
    return value % 4 == 3


class Keeper:
    """Writes to a store, passes on, and then fails."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        self._store = context.store("kept")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        row = self._store.get(key) or 0
        self._store.put(key, row + value % 10)
        self._context.forward(key, row)
        if value // 100 == 5:
            self._context.dead_letter("not wanted")


def described(*, fails: bool, caching: bool) -> Topology:
    """A topology whose functions fail, or that filters out beforehand what they would fail on."""

    def released(stream: Any, topic: str) -> None:
        """A sink behind a function that fails on some of the rows which are let go."""
        if not fails:
            stream.filter(lambda _, value: value is not None and unlucky(value)).to(f"refused-{topic}", values=int)
            stream = stream.filter(lambda _, value: value is None or not unlucky(value))
        stream.filter(lambda _, value: value is None or not unlucky(value) or 1 // 0).to(topic, values=int)

    streams = StreamsBuilder("app")
    streams.add_store(Store("kept", int))
    one, two = streams.stream("one", int), streams.stream("two", int)
    sums = one.group_by_key().aggregate(lambda: 0, lambda total, value: total + value % 10, store=Store("sums", int))
    one.peek(failing(1)).to("first")
    one.outer_join(two, lambda left, right: (left or 0) + (right or 0), JoinWindows(5, 5, 5), values=int).to("joined")
    one.peek(failing(2)).to("second")
    windows = one.group_by_key().windowed_by(tumbling(10 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE)
    released(windows.count(store="windows").to_stream(), "windows")
    one.map_values(lambda value: failing(3)(None, value), values=int).to("third")
    final = one.group_by_key().windowed_by(sessions(5 * MS)).count(store="sessions")
    released(final.suppress(until_window_closes(sessions(5 * MS))).to_stream(), "sessions")
    one.filter(lambda key, value: bool(failing(4)(key, value)) or True).to("fourth")
    one.process(Keeper, stores=["kept"], values=int).to("kept")
    newest = one.to_table(store=Store("newest", int, history=50 * MS))
    released(two.left_join(newest, lambda left, right: left + (right or 0), grace=4 * MS, values=int), "as-of")
    released(sums.suppress(until_limit(7 * MS)).to_stream(), "sums")
    cached = one.to_table(store=Store("cached", int, caching=caching))
    released(cached.to_stream(), "cached") if caching else cached.to_stream().to("cached")
    inner = one if fails else one.filter(lambda _, value: value // 100 != INSIDE)
    inner.select_key(lambda _, value: str(value % 3)).group_by_key().aggregate(
        lambda: 0, lambda total, value: failing(INSIDE)(None, value) * 0 + total + 1, store=Store("inner", int)
    ).to_stream().to("inner")
    one.peek(failing(6)).peek(failing(7)).to("last")
    return streams.build()


SINKS = (
    "first", "joined", "second", "windows", "third", "sessions", "fourth", "kept", "as-of", "sums", "inner", "last",
)  # fmt: skip
RELEASED = ("windows", "sessions", "as-of", "sums")
ROWS = ("sums", "windows", "sessions", "newest", "kept", "cached", "inner")
Events = list[tuple[str, str, int, int]]
EVENTS = st.lists(
    st.tuples(st.sampled_from(["one", "one", "two"]), st.sampled_from("abc"),
              st.integers(0, 9) | st.integers(100, 899), st.integers(1, 9)),
    max_size=30,
)  # fmt: skip
CUTS = st.lists(st.integers(1, 8), max_size=12)
CRASHES = st.dictionaries(st.integers(0, 8), st.tuples(st.sampled_from(CrashStep), st.integers(0, 4)), max_size=4)


def run(topology: Topology, events: Events, cuts: list[int], crashes: dict[int, tuple[CrashStep, int]]) -> Any:
    driver = TopologyTestDriver(topology)
    now_ms, waiting, ends = 0, 0, iter(cuts)
    end = next(ends, 1)
    for topic, key, value, after_ms in events:
        now_ms += after_ms
        driver.append(topic, key, value, now_ms)
        waiting += 1
        if waiting >= end:
            if end in crashes:
                step, batches_before = crashes[end]
                driver.crash_at(step, batches_before=batches_before)
            driver.run()
            waiting, end = 0, next(ends, 1)
    driver.run()
    return driver


def rows_of(driver: TopologyTestDriver, store: str) -> list[Any]:
    if store == "newest":
        return [(key, driver.store(store).get(key)) for key in "abc"]
    return driver.rows(store)


def is_poison(event: tuple[str, str, int, int]) -> bool:
    topic, _, value, _ = event
    return topic == "one" and 1 <= value // 100 <= SITES


def check_against_the_input_without_it(events: Events, cuts: list[int], crashes: Any) -> None:
    found = run(described(fails=True, caching=False), events, cuts, crashes)
    times = [after_ms for *_, after_ms in events]
    clean: Events = []
    for number, event in enumerate(events):
        if is_poison(event):
            times[number + 1 : number + 2] = [after + times[number] for after in times[number + 1 : number + 2]]
        else:
            clean.append((*event[:3], times[number]))
    wanted = run(described(fails=False, caching=False), clean, [], {})
    for topic in SINKS:
        assert found.read(topic) == wanted.read(topic), topic
    for store in ROWS:
        assert rows_of(found, store) == rows_of(wanted, store), store
    assert found.dropped.by_reason == wanted.dropped.by_reason
    letters = [letter.record for letter in found.dead_letters]
    poison = [number for number, event in enumerate(e for e in events if e[0] == "one") if is_poison(event)]
    assert [record.offset for record in letters if record.topic == "one"] == poison
    inside = [event for event in clean if event[0] == "one" and event[2] // 100 == INSIDE]
    assert len([record for record in letters if record.topic.endswith("repartition")]) == len(inside)
    refused = [record.value for topic in RELEASED for record in wanted.read(f"refused-{topic}")]
    assert len([record for record in letters if not record.topic and record.value]) == len(refused)
    assert len(letters) == len(poison) + len(inside) + len(refused)


@settings(max_examples=100)
@given(events=EVENTS, cuts=CUTS, crashes=CRASHES)
def test_the_rest_is_as_if_bad_records_had_never_come(events: Events, cuts: list[int], crashes: Any) -> None:
    check_against_the_input_without_it(events, cuts, crashes)


@pytest.mark.long("test_the_rest_is_as_if_bad_records_had_never_come has a hundred of them")
@settings(max_examples=4000)
@given(events=EVENTS, cuts=CUTS, crashes=CRASHES)
def test_thousands_of_inputs_with_bad_records(events: Events, cuts: list[int], crashes: Any) -> None:
    check_against_the_input_without_it(events, cuts, crashes)
