"""The order in which a task takes the records of a batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import chain, cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.topology import Store, StreamsBuilder, TopologyTestDriver, hopping, sessions, tumbling
from storekeeper.topology.record_order import (
    UPSTREAM,
    Ordered,
    by_upstream,
    origin_in,
    reading_order,
    runs_of,
    with_upstream,
)
from storekeeper.topology.records import Moved, Record, RecordFields
from storekeeper.topology.sub_topology import SubTopology

MS = timedelta(milliseconds=1)
VIEWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("uvw"), st.integers(0, 40)), max_size=40)
CUTS = st.sets(st.integers(1, 39))


def only(streams: StreamsBuilder) -> SubTopology:
    [sub] = streams.build().sub_topologies
    return sub


def in_order(records: Iterable[RecordFields], sub: SubTopology) -> list[RecordFields]:
    """All records in the order of a task."""
    return [record for part in Ordered(runs_of(records), sub) for record in part]


def test_no_partition_changes_its_order_and_topics_are_merged_by_time() -> None:
    streams = StreamsBuilder("app")
    streams.stream("a", int).merge(streams.stream("b", int)).to("out")
    times = {("a", 0): [1, 9, 3, 10], ("a", 1): [2, 4, 5], ("b", 0): [0, 2, 8]}
    records = [
        Record(topic, partition, offset, time, None, None)
        for (topic, partition), row in times.items()
        for offset, time in enumerate(row)
    ]
    random.Random(1).shuffle(records)
    assert [(*record[:2], record[3]) for record in in_order(records, only(streams))] == [
        ("b", 0, 0), ("a", 0, 1), ("a", 1, 2), ("b", 0, 2), ("a", 1, 4), ("a", 1, 5), ("b", 0, 8), ("a", 0, 9),
        ("a", 0, 3), ("a", 0, 10),
    ]  # fmt: skip


RUNS = st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 1)), st.lists(st.integers(0, 9), max_size=12))


@given(times=RUNS, cuts=st.lists(st.integers(1, 4), min_size=1), left_out=st.integers(0, 12))
def test_however_its_runs_are_cut_the_order_is_that_of_all_records_at_once(
    times: dict[tuple[str, int], list[int]], cuts: list[int], left_out: int
) -> None:
    streams = StreamsBuilder("app")
    streams.stream("b", int).merge(streams.stream("c", int)).to("out")
    streams.table("a", int, store="rows")
    sub = SubTopology(0, tuple(node for sub in streams.build().sub_topologies for node in sub.nodes))
    runs = {name: [Record(*name, at, time, None, None) for at, time in enumerate(row)] for name, row in times.items()}
    due = [
        (max(record.timestamp_ms for record in run[: at + 1]), name, at, record)
        for name, run in runs.items()
        for at, record in enumerate(run)
    ]
    expected = [record for *_, record in sorted(due)]

    def parts(run: list[Record]) -> list[list[Record]]:
        sizes, found, at = cycle(cuts), [], 0
        while at < len(run):
            found.append(run[at : (at := at + next(sizes))])
        return found

    ordered = Ordered({name: parts(run) for name, run in runs.items()}, sub)
    assert list(chain.from_iterable(ordered)) == expected
    places = frozenset(record[:3] for record in expected[left_out : left_out + 1])
    rest = [record for record in expected if record[:3] not in places]
    alone = list(chain.from_iterable(ordered.leaving_out(places)))
    other = ordered.without(places)
    assert (other is None) == (alone == rest)
    if other is not None:
        assert list(chain.from_iterable(other)) == alone


def time_of(_: str, value: int) -> int:
    if value < 0:
        raise ValueError(value)
    return value


@pytest.mark.parametrize("bad", [b"{", b"-1", None], ids=["undecodable", "without a time", "null"])
def test_a_record_without_a_time_of_its_event_holds_up_none_behind_it(bad: bytes | None) -> None:
    streams = StreamsBuilder("app")
    streams.stream("a", int, timestamps=time_of).map_values(abs, values=int).to("out")
    far_ahead = 9_000_000
    good = [(1, 5), (1, 7), (0, 6), (0, 8)]
    records = [
        Record("a", 0, 0, far_ahead, None, bad),
        *(Record("a", partition, 1 + at, 0, None, b"%d" % time) for at, (partition, time) in enumerate(good)),
    ]
    taken = [record[5] for record in in_order(records, only(streams)) if record[5] != bad]
    assert taken == [b"5", b"6", b"7", b"8"]


def test_nor_does_one_whose_own_time_is_none() -> None:
    streams = StreamsBuilder("app")
    streams.stream("a", int).to("out")
    times = {0: [2**60, 6, 8], 1: [5, 7]}
    records = [
        Record("a", partition, offset, time, None, b"1")
        for partition, row in times.items()
        for offset, time in enumerate(row)
    ]
    assert [record[3] for record in in_order(records, only(streams))][1:] == [5, 6, 7, 8]


def both(streams: StreamsBuilder, clicks: str) -> None:
    users = streams.table("users", int)
    streams.stream(clicks, int).left_join(users, lambda click, user: [click, user], values=list).to("out")


def counted_side(streams: StreamsBuilder, clicks: str) -> None:
    users = streams.stream("users", int).filter(lambda *_: True).group_by_key().count()
    streams.stream(clicks, int).left_join(users, lambda click, user: [click, user], values=list).to("out")


def newest_side(streams: StreamsBuilder, clicks: str) -> None:
    stream = streams.stream(clicks, int)
    users = streams.stream("users", int).map_values(lambda user: user, values=int).to_table()
    stream.left_join(users, lambda click, user: [click, user], values=list).to("out")


@pytest.mark.parametrize("describe", [both, counted_side, newest_side])
@pytest.mark.parametrize("clicks", ["a-clicks", "z-clicks"])
def test_at_one_time_tables_are_first_whatever_topics_are_called(describe: Callable[..., None], clicks: str) -> None:
    streams = StreamsBuilder("app")
    describe(streams, clicks)
    driver = TopologyTestDriver(streams.build())
    driver.append(clicks, "k", 9, 100)
    driver.append("users", "k", 1, 100)
    driver.run()
    assert driver.read("out") == [("k", [9, 1], 100)]


@pytest.mark.parametrize("first", ["a", "z"])
def test_at_one_time_streams_are_taken_in_the_order_of_their_declaration(first: str) -> None:
    streams = StreamsBuilder("app")
    streams.stream(first, int).merge(streams.stream("m", int)).to("out")
    driver = TopologyTestDriver(streams.build())
    driver.append("m", "k", 2, 5)
    driver.append(first, "k", 1, 5)
    driver.run()
    assert [record.value for record in driver.read("out")] == [1, 2]


def test_a_topic_that_is_read_as_stream_and_table_is_a_stream() -> None:
    streams = StreamsBuilder("app")
    mixed = streams.stream("mixed", int)
    mixed.to("copies")
    users = streams.table("users", int)
    mixed.to_table().join(users, lambda one, two: one + two, values=int)
    assert [source.topic for source in reading_order(only(streams))] == ["users", "mixed"]


def test_the_time_of_an_event_counts_where_the_topology_says_how_to_get_it() -> None:
    streams = StreamsBuilder("app")

    def event_time(_: str, value: int) -> Any:
        return {3: None, 4: 1 << 64}.get(value, 100 - value) if value < 5 else 1 / 0

    streams.stream("a", int, timestamps=event_time).merge(streams.stream("b", int)).to("out")
    records = [Record("a", 0, 0, 5, b"k", b"10"), Record("b", 0, 0, 95, b"k", b"2"), Record("b", 0, 1, 99, b"k", b"1")]
    assert [record.topic for record in map(Record._make, in_order(records, only(streams)))] == ["a", "b", "b"]
    records[0] = records[0]._replace(value=b"2")
    assert [record.topic for record in map(Record._make, in_order(records, only(streams)))] == ["b", "a", "b"]
    for odd in (b"3", b"4", b"7", b"no number"):
        records[0] = records[0]._replace(value=odd)
        assert [record.topic for record in map(Record._make, in_order(records, only(streams)))] == ["a", "b", "b"]


def test_a_repartition_topic_says_which_task_a_record_is_from() -> None:
    headers = [("trace", b"1")]
    moved: list[Moved] = [(b"k", b"v", 5, (), "", 0, -1), (b"l", None, 6, headers, "between", 0, 8)]
    moved.append((b"m", None, 7, (), "in", 3, 78))
    [one, two, three] = with_upstream(moved, 12, {("between", 0, 8): ("in", 3, 77)}.__getitem__, {"between"})
    assert three == (b"m", None, 7, [(UPSTREAM, b"12 in 3 78")])
    assert one == (b"k", b"v", 5, [(UPSTREAM, b"12")])
    assert origin_in(("t", 3, 7, 5, *one[:2], one[3])) is None
    assert origin_in(("t", 3, 8, 6, *two[:2], two[3])) == ("in", 3, 77)
    assert origin_in(("t", 3, 8, 6, b"l", None, headers)) is None
    assert by_upstream(Record("t", 3, 7, 5, *one[:2], one[3])) == Record("t", 12, 7, 5, b"k", b"v", ())
    assert by_upstream(Record("t", 3, 8, 6, *two[:2], two[3])) == Record("t", 12, 8, 6, b"l", None, headers)
    others = Record("t", 3, 9, 7, b"k", b"v", headers)
    assert by_upstream(others) is others
    marked_by_others = Record("t", 3, 9, 7, b"k", b"v", [(UPSTREAM, None)])
    assert by_upstream(marked_by_others) is marked_by_others
    assert origin_in(marked_by_others) is None


def regions(streams: StreamsBuilder, grace: timedelta | None) -> None:
    """Views joined with a table, by another key: behind a repartition topic. Counted in windows of each kind."""
    users = streams.table("users", str)
    views = streams.stream("views", str).select_key(lambda _, user: user)
    by_region = views.left_join(users, lambda _, region: region or "?", values=str).group_by(lambda _, region: region)
    given = {} if grace is None else {"grace": grace}
    for name, windows in (
        ("tumbling", tumbling(10 * MS, **given)),
        ("hopping", hopping(10 * MS, advance=5 * MS, **given)),
        ("sessions", sessions(3 * MS, **given)),
    ):
        by_region.windowed_by(windows).count(store=Store(name, int, retention=100 * MS))


def viewed(views: list[tuple[int, str, int]], cuts: set[int], grace: timedelta | None) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    regions(streams, grace)
    driver = TopologyTestDriver(streams.build(), {"views": 4, "users": 4})
    for user, region in zip("uvw", ("north", "south", "north"), strict=True):
        driver.pipe("users", user, region, 0)
    for number, (partition, user, time_ms) in enumerate(views):
        if number in cuts:
            driver.run()
        driver.append("views", None, user, time_ms, partition=partition)
    driver.run()
    return driver


@settings(max_examples=100)
@given(views=VIEWS, cuts=CUTS)
def test_batches_change_no_window_with_grace(views: list[tuple[int, str, int]], cuts: set[int]) -> None:
    whole, cut = (viewed(views, where, 50 * MS) for where in (set[int](), cuts))
    for store in ("tumbling", "hopping", "sessions"):
        assert sorted(whole.rows(store)) == sorted(cut.rows(store))
    assert whole.dropped.total == 0


@settings(max_examples=100)
@given(views=VIEWS, cuts=CUTS)
def test_records_in_time_order_lose_no_window_behind_a_repartition_topic(
    views: list[tuple[int, str, int]], cuts: set[int]
) -> None:
    ordered = sorted(views, key=lambda view: view[2])
    driver = viewed(ordered, cuts, None)
    assert driver.dropped.total == 0
    region = {"u": "north", "v": "south", "w": "north"}
    expected = Counter((region[user], time_ms // 10 * 10) for _, user, time_ms in ordered)
    assert {(window.key, window.start_ms): count for window, count in driver.rows("tumbling")} == expected
