"""Random topologies of all operators equal a recomputation, however their input falls into batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storekeeper.topology import CrashStep, StreamsBuilder, TopologyTestDriver
from tests.model.random_topologies import (
    BEGIN_MS,
    STREAMS,
    TABLES,
    Input,
    Node,
    Nodes,
    describe,
    driven,
    driven_from_full_topics,
    expected,
    inputs,
    is_delayed,
    topologies,
)

CUTS = st.lists(st.integers(1, 8), min_size=1, max_size=6)
CRASHES = st.none() | st.tuples(st.sampled_from(CrashStep), st.integers(0, 6))
WAYS = st.lists(st.tuples(CUTS, CRASHES, st.integers(1, 2)), min_size=2, max_size=3)


def check(nodes: Nodes, records: list[Input], ways: list[Any]) -> None:
    """Runs the topology in each way: the sizes of batches, a crash, the number of partitions."""
    right, found = expected(nodes, records), []
    for cuts, crash, partitions in ways:
        streams = StreamsBuilder("app")
        describe(nodes, streams)
        driver = TopologyTestDriver(streams.build(), dict.fromkeys(TABLES + STREAMS, partitions))
        if crash is not None:
            driver.crash_at(crash[0], batches_before=crash[1])
        found.append(driven(nodes, records, cuts, driver))
        assert driver.dead_letters == []
    for place, final in right.items():
        for way, one in zip(ways, found, strict=True):
            # What waits for its time at the end depends on nothing else, but its last change has not come yet.
            wanted = found[0][place] if is_delayed(nodes, place) and way[2] == ways[0][2] else final
            if way[2] == ways[0][2] or not is_delayed(nodes, place):
                assert one[place] == wanted, (place, nodes[place], way)


@settings(max_examples=100, deadline=None)
@given(nodes=topologies(), records=inputs(), ways=WAYS)
def test_results_do_not_depend_on_batches_partitions_or_crashes(nodes: Nodes, records: list[Input], ways: Any) -> None:
    check(nodes, records, ways)


@pytest.mark.long("test_results_do_not_depend_on_batches_partitions_or_crashes")
@pytest.mark.parametrize("_part", range(20))  # each within the time of a test
@settings(max_examples=250, deadline=None)
@given(nodes=topologies(9), records=inputs(40), ways=WAYS)
def test_larger_topologies_do_not_depend_on_them_either(
    nodes: Nodes, records: list[Input], ways: Any, _part: int
) -> None:
    check(nodes, records, ways)


def check_from_full_topics(nodes: Nodes, records: list[Input], most: int, partitions: int) -> None:
    """Compares what comes out of full topics with what came out of the same records live."""
    drivers = []
    for _ in range(2):
        streams = StreamsBuilder("app")
        describe(nodes, streams)
        drivers.append(TopologyTestDriver(streams.build(), dict.fromkeys(TABLES + STREAMS, partitions)))
    live = driven(nodes, records, [1], drivers[0])
    found = driven_from_full_topics(nodes, records, most, drivers[1])
    for place, final in live.items():
        assert found[place] == final, (place, nodes[place])


EVERY_KIND: Nodes = (
    *(Node("table", topic=topic, stored=True) for topic in TABLES),
    *(Node("stream", topic=topic) for topic in STREAMS),
    *(Node(kind, (0, 1)) for kind in ("join", "left", "outer", "fk", "fk-left")),
    *(Node(kind, (2,)) for kind in ("filter", "map", "group", "suppress")),
    *(Node(kind, (3,)) for kind in ("windows", "hopping", "closing", "final", "sessions", "totals")),
    Node("near", (3, 4)),
    Node("lookup", (3, 0)),
    Node("lookup", (4, 5)),
)


@settings(max_examples=25, deadline=None)
@given(records=inputs(60, least=30), most=st.integers(2, 12), partitions=st.integers(1, 2))
def test_full_topics_give_what_they_give_live(records: list[Input], most: int, partitions: int) -> None:
    check_from_full_topics(EVERY_KIND, records, most, partitions)


@pytest.mark.long("test_full_topics_give_what_they_give_live")
@pytest.mark.parametrize("_part", range(8))
@settings(max_examples=250, deadline=None)
@given(nodes=topologies(9), records=inputs(60), most=st.integers(1, 20), partitions=st.integers(1, 2))
def test_full_topics_of_any_topology_give_what_they_give_live(
    nodes: Nodes, records: list[Input], most: int, partitions: int, _part: int
) -> None:
    check_from_full_topics(nodes, records, most, partitions)


BAD = st.lists(st.booleans(), max_size=40)


def refused(_: Any, value: Any) -> bool:
    if value is not None and "bad" in value:
        raise ValueError(value)
    return True


def check_without_trace(nodes: Nodes, records: list[Input], bad: list[bool], cuts: list[int]) -> None:
    """Compares batches, of which the last operators fail on some records, with the same ones without these."""
    drivers = []
    for _ in range(2):
        streams = StreamsBuilder("app")
        describe(nodes, streams)
        for topic in TABLES + STREAMS:
            streams.stream(topic, dict).filter(refused).to("checked", values=dict)
        drivers.append(TopologyTestDriver(streams.build()))
    found, wanted = drivers
    at, number, letters = 0, 0, 0
    while at < len(records):
        end = at + cuts[number % len(cuts)]
        for place, (topic, key, value) in enumerate(records[at:end], at):
            if place < len(bad) and bad[place]:
                found.append(topic, key, {**(value or {}), "bad": 1}, BEGIN_MS + 3 * place)
                letters += 1
            else:
                for driver in drivers:
                    driver.append(topic, key, value, BEGIN_MS + 3 * place)
        found.run()
        wanted.run()
        at, number = end, number + 1
    assert len(found.dead_letters) == letters
    for place, node in enumerate(nodes):
        if node.kind != "stream":
            assert found.read(f"out-{place}") == wanted.read(f"out-{place}"), (place, node)
    assert found.dropped.by_reason == wanted.dropped.by_reason


@settings(max_examples=100, deadline=None)
@given(nodes=topologies(), records=inputs(), bad=BAD, cuts=CUTS)
def test_bad_records_leave_no_trace(nodes: Nodes, records: list[Input], bad: list[bool], cuts: list[int]) -> None:
    check_without_trace(nodes, records, bad, cuts)


@pytest.mark.long("test_bad_records_leave_no_trace")
@pytest.mark.parametrize("_part", range(8))
@settings(max_examples=250, deadline=None)
@given(nodes=topologies(9), records=inputs(40), bad=BAD, cuts=CUTS)
def test_bad_records_leave_no_trace_in_larger_ones(
    nodes: Nodes, records: list[Input], bad: list[bool], cuts: list[int], _part: int
) -> None:
    check_without_trace(nodes, records, bad, cuts)
