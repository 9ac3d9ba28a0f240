"""Joins below forks: a stream's record meets the table with its own change in it, however the two ways lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storekeeper.topology import StreamsBuilder, TopologyTestDriver
from storekeeper.topology.forks import meetings_of

Describe = Callable[[StreamsBuilder], None]


def plus(total: int, value: int) -> int:
    return total + value


def pair(value: int, total: int | None) -> list[int | None]:
    return [value, total]


def table_first(streams: StreamsBuilder) -> None:
    numbers = streams.stream("in", int)
    totals = numbers.group_by_key().aggregate(int, plus)
    numbers.join(totals, pair, values=list).to("out")


def table_first_behind_others(streams: StreamsBuilder) -> None:
    numbers = streams.stream("in", int)
    totals = numbers.filter(lambda _, value: value >= 0).group_by_key().aggregate(int, plus)
    numbers.map_values(lambda value: value, values=int).join(totals, pair, values=list).to("out")


def stream_first(streams: StreamsBuilder) -> None:
    numbers = streams.stream("in", int)
    same = numbers.map_values(lambda value: value, values=int)
    totals = numbers.group_by_key().aggregate(int, plus)
    same.join(totals, pair, values=list).to("out")


def stream_on_both_sides(streams: StreamsBuilder) -> None:
    numbers = streams.stream("in", int)
    early = numbers.filter(lambda _, value: value % 2 == 0)
    totals = numbers.group_by_key().aggregate(int, plus)
    late = numbers.filter(lambda _, value: value % 2 == 1)
    early.merge(late).join(totals, pair, values=list).to("out")


def table_that_is_settled_later(streams: StreamsBuilder) -> None:
    numbers = streams.stream("in", int)
    totals = numbers.group_by_key().aggregate(int, plus)
    newest = numbers.group_by_key().reduce(lambda _, value: value)
    both = totals.join(newest, lambda total, value: total + 0 * value, values=int, store="both")
    numbers.map_values(lambda value: value, values=int).join(both, pair, values=list).to("out")


def table_above(streams: StreamsBuilder) -> None:
    totals = streams.stream("in", int).group_by_key().aggregate(int, plus)
    same = totals.map_values(lambda total: total, values=int, store="same")
    totals.to_stream().join(same, lambda _, total: [total, total], values=list).to("out")


@pytest.mark.parametrize("describe", [table_first, table_first_behind_others])
def test_a_join_that_comes_after_its_table_collects_nothing(describe: Describe) -> None:
    streams = StreamsBuilder("app")
    describe(streams)
    (sub,) = streams.build().sub_topologies
    assert meetings_of(sub.nodes) == ({}, {})


@pytest.mark.parametrize("describe", [stream_first, stream_on_both_sides, table_that_is_settled_later, table_above])
def test_any_other_join_below_a_fork_waits_for_it(describe: Describe) -> None:
    streams = StreamsBuilder("app")
    describe(streams)
    (sub,) = streams.build().sub_topologies
    assert list(meetings_of(sub.nodes)[0])[-1].kind == "join"


@pytest.mark.parametrize(
    "describe",
    [table_first, table_first_behind_others, stream_first, stream_on_both_sides, table_that_is_settled_later],
)
def test_each_record_meets_the_total_that_includes_it(describe: Describe) -> None:
    streams = StreamsBuilder("app")
    describe(streams)
    driver, totals = TopologyTestDriver(streams.build()), dict.fromkeys("ab", 0)
    numbers = [("a", 1), ("b", 2), ("a", 4), ("a", 3), ("b", 5)]
    expected = []
    for at, (key, value) in enumerate(numbers):
        driver.append("in", key, value, at)
        totals[key] += value
        expected.append((key, [value, totals[key]], at))
    driver.run()
    assert [tuple(record) for record in driver.read("out")] == expected


def test_a_change_of_a_table_meets_what_is_made_of_it() -> None:
    streams = StreamsBuilder("app")
    table_above(streams)
    driver = TopologyTestDriver(streams.build())
    for at, value in enumerate((1, 2, 4)):
        driver.append("in", "a", value, at)
    driver.run()
    assert [record.value for record in driver.read("out")] == [[1, 1], [3, 3], [7, 7]]
