"""Rows that know their window, against a recomputation of the whole input."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.stores.windowed import Windowed
from storekeeper.topology import (
    Store,
    StreamsBuilder,
    TopologyTestDriver,
    hopping,
    sessions,
    sliding,
    with_key,
    with_window,
)

MS = timedelta(milliseconds=1)
LONG = 1000 * MS
RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 40)), max_size=20)


class Row(msgspec.Struct, frozen=True):
    key: str = ""
    start_ms: int = -1
    end_ms: int = -1
    total: int = 0


def add(window: Windowed[str], row: Row, value: int) -> Row:
    return Row(window.key, window.start_ms, window.end_ms, row.total + value)


def merge(one: Row, two: Row) -> Row:
    return Row(total=one.total + two.total)


@settings(max_examples=100)
@given(records=RECORDS)
def test_a_row_holds_its_own_key_and_bounds(records: list[tuple[str, int, int]]) -> None:
    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key()
    adder = with_window(add)
    grouped.windowed_by(hopping(10 * MS, advance=5 * MS, grace=LONG)).aggregate(Row, adder, store=Store("hops", Row))
    grouped.windowed_by(sessions(3 * MS, grace=LONG)).aggregate(Row, adder, merge, store=Store("sessions", Row))
    driver = TopologyTestDriver(streams.build())
    for key, value, timestamp_ms in records:
        driver.pipe("in", key, value, timestamp_ms)
    for store in ("hops", "sessions"):
        rows = dict(driver.rows(store))
        assert {(row.key, row.start_ms, row.end_ms) for row in rows.values()} == set(rows)
        for (wanted, start_ms, end_ms), row in rows.items():
            last_ms = end_ms if store == "sessions" else end_ms - 1
            held = [value for key, value, ms in records if key == wanted and start_ms <= ms <= last_ms]
            assert row.total == sum(held)


def test_other_adders_of_windows_get_the_plain_key() -> None:
    streams = StreamsBuilder("app")
    grouped = streams.stream("in", int).group_by_key()
    grouped.windowed_by(sliding(5 * MS)).aggregate(
        str, with_key(lambda key, text, value: f"{text}{key}{value}"), store=Store("texts", str)
    )
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 7)
    assert driver.rows("texts") == [(("a", 2, 7), "a1")]
