"""A task that dies at any step of its commit loses nothing and doubles nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.topology import (
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
)

MS = timedelta(milliseconds=1)
KEYS = st.sampled_from("abc")
TIMES = st.integers(0, 60)
EVENTS = st.lists(st.tuples(st.sampled_from(["one", "two"]), KEYS, st.integers(0, 9), TIMES), max_size=25)
CRASHES = st.dictionaries(st.integers(0, 24), st.tuples(st.sampled_from(CrashStep), st.integers(0, 4)), max_size=6)


def everything() -> Topology:
    streams = StreamsBuilder("app")
    one = streams.stream("one", int)
    two = streams.stream("two", int)
    one.outer_join(two, lambda left, right: [left, right], JoinWindows(5, 10, 5), values=list).to("joined")
    one.select_key(lambda _, value: str(value % 3)).group_by_key().count(store="counts").to_stream().to("counts")
    windows = two.group_by_key().windowed_by(tumbling(10 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE)
    windows.count(store="windows").to_stream().to("windows")
    two.group_by_key().windowed_by(sessions(5 * MS)).count(store="sessions").to_stream().to("sessions")
    table = two.to_table(store=Store("newest", int, history=50 * MS))
    one.left_join(table, lambda left, right: [left, right], grace=4 * MS, values=list).to("as-of")
    grouped = one.to_table(store="ones").group_by(lambda _, value: (str(value % 2), value), values=int)
    sums = grouped.reduce(lambda total, value: total + value, lambda total, value: total - value, store="sums")
    sums.suppress(until_limit(7 * MS)).to_stream().to("sums")
    return streams.build()


SINKS = ("joined", "counts", "windows", "sessions", "as-of", "sums")
STORES = ("counts", "windows", "sessions", "newest", "ones", "sums")


def outcome(events: list[tuple[str, str, int, int]], crashes: dict[int, tuple[CrashStep, int]]) -> list[object]:
    driver = TopologyTestDriver(everything())
    for number, (topic, key, value, timestamp_ms) in enumerate(events):
        if number in crashes:
            step, batches_before = crashes[number]
            driver.crash_at(step, batches_before=batches_before)
        driver.pipe(topic, key, value, timestamp_ms)
    seen: list[object] = [driver.read(topic) for topic in SINKS]
    return [*seen, *(driver.rows(store) for store in STORES if store != "newest"), driver.dropped.total]


@settings(max_examples=150)
@given(events=EVENTS, crashes=CRASHES)
def test_crashes_change_nothing(
    events: list[tuple[str, str, int, int]], crashes: dict[int, tuple[CrashStep, int]]
) -> None:
    assert outcome(events, crashes) == outcome(events, {})


@pytest.mark.parametrize("step", CrashStep)
def test_a_batch_that_was_cut_off_is_counted_once(step: CrashStep) -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).group_by_key().count(store="counts").to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 0)
    driver.crash_at(step)
    driver.pipe("in", "a", 2, 1)
    driver.pipe("in", "a", 3, 2)
    assert [record.value for record in driver.read("out")] == [1, 2, 3]
    assert driver.rows("counts") == [("a", 3)]
    assert len(driver.changelog("counts")) == 3


def test_of_a_batch_the_last_change_of_a_row_is_logged() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).group_by_key().count(store="counts")
    driver = TopologyTestDriver(streams.build())
    for value in range(5):
        driver.append("in", "a", value, value)
    driver.run()
    assert [key for key, _ in driver.changelog("counts")] == [b"a"]


def test_what_is_suppressed_outlives_a_task() -> None:
    streams = StreamsBuilder("app")
    streams.table("in", int).suppress(until_limit(10 * MS)).to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 0)
    driver.crash_at(CrashStep.COMMITTED)
    driver.pipe("in", "b", 2, 5)
    assert driver.read("out") == []
    driver.pipe("in", "c", 3, 11)
    assert driver.read("out") == [("a", 1, 0)]


@pytest.mark.parametrize(("step", "outputs"), [(CrashStep.BEFORE_COMMIT, [1, 2, 3]), (CrashStep.COMMITTED, [1, 2, 1])])
def test_a_store_without_a_changelog_begins_empty_where_it_lacks_a_batch(step: CrashStep, outputs: list[int]) -> None:
    streams = StreamsBuilder("app")
    counts = streams.stream("in", int).group_by_key().count(store=Store("counts", int, logging=False))
    counts.to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1)
    driver.crash_at(step)
    driver.pipe("in", "a", 1)
    driver.pipe("in", "a", 1)
    assert [record.value for record in driver.read("out")] == outputs


def test_windows_emitted_on_close_are_emitted_once() -> None:
    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key()
    windows = grouped.windowed_by(tumbling(10 * MS), emit=EmitStrategy.ON_WINDOW_CLOSE)
    windows.count(store=Store("windows", int, retention=1000 * MS)).to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 1)
    driver.pipe("in", "b", 1, 12)
    driver.crash_at(CrashStep.COMMITTED)
    driver.pipe("in", "b", 1, 13)
    driver.pipe("in", "c", 1, 25)
    assert [(record.key.key, record.value) for record in driver.read("out")] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("joined_before", [False, True])
@pytest.mark.parametrize("step", CrashStep)
def test_a_suppression_keeps_what_a_cache_lets_go_when_the_batch_ends(step: CrashStep, joined_before: bool) -> None:
    streams = StreamsBuilder("app")
    events = streams.stream("in", int)
    table = streams.table("t", int, store=Store("t", int, caching=True))
    if joined_before:
        events.left_join(table, lambda left, right: [left, right], values=list).to("joined")
    table.suppress(until_limit(7 * MS)).to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("t", "a", 1, 0)
    driver.crash_at(step)  # the next task has what was saved
    driver.pipe("t", "b", 2, 20)
    driver.pipe("t", "c", 3, 40)
    assert [(record.key, record.value) for record in driver.read("out")] == [("a", 1), ("b", 2)]
