"""Joins by a foreign key of which both sides, or one row several times, change in one batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storekeeper.topology import StreamsBuilder, TopologyTestDriver

Upsert = tuple[str, str, str | None]


def named(value: str) -> str | None:
    """The right key that a left value names: `first:x` names x, `first` none."""
    return value.partition(":")[2] or None


def joined() -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    left, right = streams.table("left", str), streams.table("right", str)
    left.foreign_key_join(right, named, lambda one, two: f"{one} {two}", values=str, named="join").to_stream().to("out")
    return TopologyTestDriver(streams.build(), {"left": 2, "right": 2})


def batch(driver: TopologyTestDriver, upserts: Sequence[Upsert]) -> list[tuple[str, str | None]]:
    """What comes out."""
    for timestamp_ms, (topic, key, value) in enumerate(upserts):
        driver.append(topic, key, value, timestamp_ms)
    driver.run()
    return [(key, value) for key, value, _ in driver.read("out")]


@pytest.mark.parametrize(
    "changes",
    [
        [("left", "a", None), ("left", "a", "second:y")],
        [("left", "a", None), ("left", "a", "second")],
        [("left", "a", "second"), ("left", "a", None)],
        [("left", "a", "second:x"), ("right", "x", None)],
        [("right", "x", None), ("left", "a", "second:x")],
        [("left", "a", None), ("right", "x", None), ("left", "a", "first:x")],
    ],
    ids=["names another", "names none", "names none and goes", "both", "both reversed", "the same again"],
)
def test_no_result_stays_when_its_rows_change_at_once(changes: list[Upsert]) -> None:
    driver = joined()
    assert batch(driver, [("right", "x", "X"), ("left", "a", "first:x")]) == [("a", "first:x X")]
    assert batch(driver, changes)[-1] == ("a", None)
    assert driver.rows("join-store") == []


def test_rows_without_a_result_give_no_tombstones() -> None:
    driver = joined()
    assert batch(driver, [("left", "a", "first:x"), ("left", "b", "first")]) == []
    assert batch(driver, [("left", "a", "second:y"), ("left", "b", "second")]) == []
    assert batch(driver, [("right", "y", "Y"), ("right", "x", "X")]) == [("a", "second:y Y")]


def test_two_tables_may_be_joined_twice() -> None:
    streams = StreamsBuilder("app")
    left, right = streams.table("left", str), streams.table("right", str)
    for topic in ("one", "two"):
        left.foreign_key_join(right, named, lambda one, two: f"{one} {two}", values=str).to_stream().to(topic)
    driver = TopologyTestDriver(streams.build())
    driver.pipe("right", "x", "X", 1)
    driver.pipe("left", "a", "first:x", 2)
    assert [record.value for topic in ("one", "two") for record in driver.read(topic)] == ["first:x X"] * 2
