"""Joins of windowed tables: which windows meet, when they are seen, and how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError
from storekeeper.stores.stream_time import LONGEST_WAIT_MS
from storekeeper.stores.windowed import Windowed
from storekeeper.topology import (
    CrashStep,
    EmitStrategy,
    KTable,
    Store,
    StreamsBuilder,
    TopologyTestDriver,
    hopping,
    sessions,
    sliding,
    tumbling,
    until_window_closes,
)
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.windows import TimeWindows, Windows

MS = timedelta(milliseconds=1)
CLOSE = EmitStrategy.ON_WINDOW_CLOSE
Record = tuple[str, str, int, int]
RECORDS = st.lists(
    st.tuples(st.sampled_from("lr"), st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 90)), max_size=20
)
SIDES = st.tuples(st.sampled_from(["update", "close", "suppress", "filter"]), st.integers(0, 25))


class Joined(NamedTuple):
    """A random join, and how its records fall into batches.

    Attributes:
        sides: how each table emits, and its grace.
        kind: of the join.
        advance: of the windows, which have 20 ms.
        cuts: the numbers of the records that end a batch.
        crashes: the steps at which those batches crash.
        caching: whether the tables cache.
    """

    sides: tuple[tuple[str, int], tuple[str, int]]
    kind: str
    advance: int
    cuts: set[int]
    crashes: dict[int, CrashStep]
    caching: bool


JOINS = st.builds(
    Joined, st.tuples(SIDES, SIDES), st.sampled_from(["join", "left_join", "outer_join"]), st.sampled_from([20, 10, 7]),
    st.sets(st.integers(0, 20)), st.dictionaries(st.integers(0, 20), st.sampled_from(CrashStep)), st.booleans(),
)  # fmt: skip


def sums(
    streams: StreamsBuilder, topic: str, windows: Windows, how: str, *, caching: bool = False
) -> KTable[Windowed[str], int]:
    """The sums of a topic's values by window."""
    emit = CLOSE if how == "close" else EmitStrategy.ON_WINDOW_UPDATE
    grouped = streams.stream(topic, int).group_by_key().windowed_by(windows, emit=emit)
    if isinstance(windows, TimeWindows):
        table = grouped.reduce(lambda total, value: total + value, store=Store(f"{topic}-sums", int, caching=caching))
    else:
        table = grouped.aggregate(int, lambda total, value: total + value, lambda one, two: one + two)
    if how == "suppress":
        return table.suppress(until_window_closes(windows))
    return table.filter(lambda _, total: total % 3 != 0) if how == "filter" else table


def pair(left: int | None, right: int | None) -> list[int | None]:
    return [left, right]


def final_sums(records: list[Record], topic: str, windows: TimeWindows, how: str) -> dict[Windowed[str], int]:
    """The sums that a table ends with, of the records that came in time."""
    rows: dict[Windowed[str], int] = {}
    now_ms = -1
    for side, key, value, timestamp_ms in records:
        if side != topic:
            continue
        now_ms = max(now_ms, timestamp_ms)
        for start_ms in windows.starts_for(timestamp_ms):
            windowed = Windowed(key, start_ms, windows.end_of(start_ms))
            if windows.closes_at_ms(windowed.end_ms) > now_ms:
                rows[windowed] = rows.get(windowed, 0) + value
    if how in {"close", "suppress"}:
        return {key: total for key, total in rows.items() if windows.closes_at_ms(key.end_ms) <= now_ms}
    return {key: total for key, total in rows.items() if how != "filter" or total % 3 != 0}


def expect_every_window_joined(records: list[Record], case: Joined) -> None:
    sides, kind = case.sides, case.kind
    definitions = [TimeWindows(20, case.advance, grace_ms) for _, grace_ms in sides]
    streams = StreamsBuilder("app")
    left, right = (
        sums(streams, topic, windows, how, caching=case.caching)
        for topic, windows, (how, _) in zip("lr", definitions, sides, strict=True)
    )
    joined: KTable[Windowed[str], list[Any]] = getattr(left, kind)(right, pair, values=list)
    joined.to_stream().map(lambda key, value: (str(key), value), values=list).to("out")
    counted = joined.group_by(lambda key, value: (str(key), value), values=list)
    counted.aggregate(int, lambda total, _: total + 1, lambda total, _: total - 1, store=Store("counts", int))
    driver = TopologyTestDriver(streams.build())
    for number, record in enumerate(records):
        driver.append(*record)
        if number in case.cuts:
            if number in case.crashes:
                driver.crash_at(case.crashes[number])
            driver.run()
    driver.run()
    lefts, rights = (
        final_sums(records, topic, windows, how)
        for topic, windows, (how, _) in zip("lr", definitions, sides, strict=True)
    )
    keys = {"join": lefts.keys() & rights.keys(), "left_join": lefts.keys()}.get(kind, lefts.keys() | rights.keys())
    expected = {str(key): [lefts.get(key), rights.get(key)] for key in keys}
    newest = {record.key: record.value for record in driver.read("out")}
    assert {key: value for key, value in newest.items() if value is not None} == expected
    counts = {key: number for key, number in driver.rows("counts") if number}
    assert counts == dict.fromkeys(expected, 1)


@settings(max_examples=150, deadline=None)
@given(records=RECORDS, case=JOINS)
def test_every_window_is_joined_with_its_final_partner(records: list[Record], case: Joined) -> None:
    expect_every_window_joined(records, case)


@pytest.mark.long("test_joined_windows.py, with fewer examples")
@settings(max_examples=5000, deadline=None)
@given(records=RECORDS, case=JOINS)
def test_thousands_of_windows_are_joined(records: list[Record], case: Joined) -> None:
    expect_every_window_joined(records, case)


def joined(left: tuple[Windows, str], right: tuple[Windows, str], kind: str = "join") -> TopologyTestDriver:
    """Two windowed tables of topics `l` and `r`, joined to topic `out`."""
    streams = StreamsBuilder("app")
    one, two = sums(streams, "l", *left), sums(streams, "r", *right)
    getattr(one, kind)(two, pair, values=list).to_stream().to("out", values=list)
    return TopologyTestDriver(streams.build())


def values(driver: TopologyTestDriver) -> list[Any]:
    return [value for _, value, _ in driver.read("out")]


@pytest.mark.parametrize("how", ["close", "suppress"])
def test_closed_windows_meet_as_they_were_emitted(how: str) -> None:
    driver = joined((tumbling(10 * MS), how), (tumbling(10 * MS), how), "outer_join")
    for record in [("l", "a", 1, 1), ("r", "a", 100, 2), ("r", "a", 100, 3)]:
        driver.pipe(*record)
    assert values(driver) == []
    driver.pipe("l", "z", 1, 5000)
    assert values(driver) == [[1, None]]
    driver.pipe("r", "z", 1, 5000)
    assert values(driver) == [[1, 200]]


def test_a_stream_of_windows_meets_closed_windows_only_when_they_are() -> None:
    streams = StreamsBuilder("app")
    closed = sums(streams, "r", tumbling(10 * MS), "close")
    sums(streams, "l", tumbling(10 * MS), "update").to_stream().left_join(closed, pair, values=list).to(
        "out", values=list
    )
    driver = TopologyTestDriver(streams.build())
    for record in [("r", "a", 5, 1), ("l", "a", 1, 2)]:
        driver.pipe(*record)
    assert values(driver) == [[1, None]]
    driver.pipe("r", "z", 5, 30)
    driver.pipe("l", "a", 1, 3)
    assert values(driver) == [[2, 5]]


@pytest.mark.parametrize(
    "windows",
    [tumbling(20 * MS), hopping(30 * MS, advance=10 * MS), sliding(10 * MS), sessions(10 * MS)],
)
def test_tables_of_other_windows_are_refused(windows: Windows) -> None:
    with pytest.raises(ConfigurationError, match=r"join: its two sides have different windows, TimeWindows"):
        joined((tumbling(10 * MS), "update"), (windows, "update"))


def test_windows_of_one_size_meet_whatever_their_grace() -> None:
    driver = joined((tumbling(10 * MS), "update"), (hopping(10 * MS, advance=5 * MS, grace=9 * MS), "update"))
    driver.pipe("l", "a", 1, 7)
    driver.pipe("r", "a", 2, 7)
    assert values(driver) == [[1, 2]]


def test_a_window_is_found_by_its_end_too() -> None:
    streams = StreamsBuilder("app")
    long = sums(streams, "r", tumbling(20 * MS), "update")
    sums(streams, "l", tumbling(10 * MS), "update").to_stream().left_join(long, pair, values=list).to(
        "out", values=list
    )
    driver = TopologyTestDriver(streams.build())
    driver.pipe("r", "a", 5, 1)
    driver.pipe("l", "a", 1, 1)
    assert values(driver) == [[1, None]]


@pytest.mark.parametrize("join", ["join", "left_join", "outer_join"])
def test_a_window_that_the_partner_forgot_is_left_out_and_counted(join: str) -> None:
    driver = joined((tumbling(10 * MS, grace=100 * MS), "update"), (tumbling(10 * MS), "update"), join)
    for record in [("l", "a", 1, 1), ("r", "a", 5, 2)]:
        driver.pipe(*record)
    assert values(driver)[-1] == [1, 5]
    driver.pipe("r", "z", 5, LONGEST_WAIT_MS + 50)
    driver.pipe("l", "a", 1, 3)
    assert values(driver)[-1] == [2, 5]
    driver.pipe("r", "z", 5, LONGEST_WAIT_MS + 500)
    driver.run()
    driver.read("out")
    driver.pipe("l", "a", 1, 4)
    assert values(driver) == []
    assert driver.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 1


def test_without_a_join_rows_expire_as_before() -> None:
    streams = StreamsBuilder("app")
    sums(streams, "l", tumbling(10 * MS), "update")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("l", "a", 1, 1)
    driver.pipe("l", "b", 1, 50)
    assert [key for key, _ in driver.rows("l-sums")] == [("b", 50, 60)]


def test_a_windowed_table_names_rows_of_another() -> None:
    streams = StreamsBuilder("app")
    names = streams.table("names", str, store="names")
    counts = sums(streams, "l", tumbling(10 * MS), "update")
    named = counts.foreign_key_left_join(names, str, lambda total, name: f"{total}{name}", values=str, store="named")
    named.to_stream().to("out", values=str)
    driver = TopologyTestDriver(streams.build(), {"names": 2, "l": 2})
    driver.pipe("names", "1", "one", 1)
    driver.pipe("l", "a", 1, 1)
    driver.pipe("names", "1", "uno", 2)
    found = [(tuple(key), value) for key, value, _ in driver.read("out")]
    assert found == [(("a", 0, 10), "1one"), (("a", 0, 10), "1uno")]
    assert driver.rows("named") == [(("a", 0, 10), "1uno")]
