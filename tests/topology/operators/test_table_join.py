"""Joins of two tables of which one or both hold changes back until the batch ends."""

from __future__ import annotations

from datetime import timedelta
from operator import add

from storekeeper.topology import Store, StreamsBuilder, TopologyTestDriver, until_limit

CACHED = Store("lefts", int, caching=True)


def joined(*, left: Store[int] = CACHED, suppresses: bool = False) -> TopologyTestDriver:
    """Sums of two tables; their number in store `counts`, and their changes in topic `out`."""
    streams = StreamsBuilder("app")
    lefts = streams.table("left", int, store=left).filter(lambda _, value: value > 0)
    if suppresses:
        lefts = lefts.suppress(until_limit(timedelta()))
    sums = lefts.join(streams.table("right", int), add, values=int)
    sums.to_stream().to("out")
    sums.group_by(lambda _, value: ("all", value), values=int).count(store="counts")
    return TopologyTestDriver(streams.build())


def batch(driver: TopologyTestDriver, *records: tuple[str, int | None, int]) -> list[tuple[int | None, int]]:
    """What comes out for records of one key."""
    for topic, value, timestamp_ms in records:
        driver.append(topic, "k", value, timestamp_ms)
    driver.run()
    return [(value, timestamp_ms) for _, value, timestamp_ms in driver.read("out")]


def test_a_row_that_is_held_back_is_joined_once() -> None:
    driver = joined()
    assert batch(driver, ("left", 1, 0), ("right", 1, 1)) == [(2, 1)]
    assert driver.rows("counts") == [("all", 1)]


def test_a_change_that_is_held_back_is_not_joined_before_it_comes() -> None:
    driver = joined()
    batch(driver, ("left", 1, 0), ("right", 1, 1))
    assert batch(driver, ("left", 5, 2), ("right", 2, 3)) == [(3, 3), (7, 3)]
    assert driver.rows("counts") == [("all", 1)]


def test_rows_that_go_in_one_batch_take_their_result_along() -> None:
    driver = joined()
    batch(driver, ("left", 1, 0), ("right", 1, 1))
    assert batch(driver, ("left", None, 2), ("right", None, 3)) == [(None, 3)]
    assert driver.rows("counts") == [("all", 0)]


def test_tables_between_pass_on_what_is_held_back() -> None:
    driver = joined(suppresses=True)
    assert batch(driver, ("left", 1, 0), ("right", 1, 1)) == [(2, 1)]
    assert batch(driver, ("left", None, 2), ("right", None, 3)) == [(None, 3)]
    assert driver.rows("counts") == [("all", 0)]


def test_without_caching_each_change_is_joined_at_once() -> None:
    driver = joined(left=Store("lefts", int))
    assert batch(driver, ("left", 1, 0), ("right", 1, 1), ("left", 5, 2)) == [(2, 1), (6, 2)]
    assert driver.rows("counts") == [("all", 1)]
