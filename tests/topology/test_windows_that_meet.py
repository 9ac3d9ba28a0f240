"""Windowed tables of one stream, joined with each other: one result of both for each change of a window."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.topology import (
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
from storekeeper.topology.windows import Windows

MS = timedelta(milliseconds=1)
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 60)), max_size=20)
WINDOWS = st.sampled_from(
    [
        tumbling(10 * MS, grace=15 * MS),
        hopping(20 * MS, advance=10 * MS),
        sliding(8 * MS, grace=5 * MS),
        sessions(6 * MS),
    ]
)
HOW = st.sampled_from(["update", "close", "suppress"])


def expect_one_result(
    records: list[tuple[str, int, int]], windows: Windows, how: str, *, batch: int, stored: bool
) -> None:
    """Counts and sums of one stream are joined, and the counts with the result."""
    streams = StreamsBuilder("app")
    emit = EmitStrategy.ON_WINDOW_CLOSE if how == "close" else EmitStrategy.ON_WINDOW_UPDATE
    grouped = streams.stream("in", int).group_by_key().windowed_by(windows, emit=emit)
    counts: KTable[Any, int] = grouped.aggregate(int, lambda total, _: total + 1, lambda one, two: one + two)
    sums: KTable[Any, int] = grouped.aggregate(int, lambda total, value: total + value, lambda one, two: one + two)
    if how == "suppress":
        counts, sums = counts.suppress(until_window_closes(windows)), sums.suppress(until_window_closes(windows))
    pairs = counts.outer_join(
        sums, lambda one, two: [one, two], values=list, store=Store("pairs", list) if stored else None
    )
    both = counts.left_join(pairs, lambda one, two: [one, two], values=list)
    for table, topic in ((pairs, "pairs"), (both, "both"), (counts, "counts"), (sums, "sums")):
        table.to_stream().map(lambda key, value: (str(tuple(key)), [value]), values=list).to(topic)
    driver = TopologyTestDriver(streams.build())
    newest: dict[str, dict[str, Any]] = {topic: {} for topic in ("pairs", "both", "counts", "sums")}
    for at in range(0, len(records), batch):
        for key, value, timestamp_ms in records[at : at + batch]:
            driver.append("in", key, value, timestamp_ms)
        driver.run()
        changes: Counter[tuple[str, str]] = Counter()
        for topic, rows in newest.items():
            for key, (value,), _ in driver.read(topic):
                changes[topic, key] += 1
                rows[key] = value
        for key in newest["counts"]:
            assert changes["pairs", key] <= max(changes["counts", key], changes["sums", key])
            assert changes["both", key] <= max(changes["counts", key], changes["sums", key])
    assert newest["pairs"].keys() == newest["counts"].keys() == newest["sums"].keys()
    for key, count in newest["counts"].items():
        pair = None if count is None else [count, newest["sums"][key]]
        assert newest["pairs"][key] == pair
        assert newest["both"][key] == (None if count is None else [count, pair])


@settings(max_examples=150, deadline=None)
@given(records=RECORDS, windows=WINDOWS, how=HOW, batch=st.sampled_from([1, 3, 20]), stored=st.booleans())
def test_windows_of_one_stream_meet_once(
    records: list[tuple[str, int, int]], windows: Windows, how: str, *, batch: int, stored: bool
) -> None:
    expect_one_result(records, windows, how, batch=batch, stored=stored)


@pytest.mark.long("test_windows_that_meet.py, with fewer examples")
@settings(max_examples=4000, deadline=None)
@given(records=RECORDS, windows=WINDOWS, how=HOW, batch=st.sampled_from([1, 3, 20]), stored=st.booleans())
def test_thousands_of_windows_of_one_stream_meet_once(
    records: list[tuple[str, int, int]], windows: Windows, how: str, *, batch: int, stored: bool
) -> None:
    expect_one_result(records, windows, how, batch=batch, stored=stored)
