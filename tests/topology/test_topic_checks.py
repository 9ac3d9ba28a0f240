"""Topics that meet are refused when the topology is built."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import own_topics, topology_app
from storekeeper.errors import ConfigurationError
from storekeeper.topology import (
    JoinWindows,
    KStream,
    KTable,
    Processor,
    Store,
    StreamsBuilder,
    TopologyTestDriver,
    until_limit,
)

SECOND = timedelta(seconds=1)
Describe = Callable[[StreamsBuilder], object]


def plus(value: int) -> int:
    return value + 1


def left(one: int, two: int) -> int:
    return one


class Forwards(Processor[str, int, str, int]):
    def init(self, context: Any) -> None:
        self.forward = context.forward

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.forward(key, value)


def refused(describe: Describe, why: str) -> None:
    def described(streams: StreamsBuilder, _: AppSettings) -> None:
        describe(streams)

    streams = StreamsBuilder("app")
    describe(streams)
    with pytest.raises(ConfigurationError, match=why):
        streams.build()
    with pytest.raises(ConfigurationError, match=why):
        topology_app("app", described, title="a test")


def through(streams: StreamsBuilder, *topics: str) -> KStream[str, int]:
    """A way from topic to topic; returns the last one's stream."""
    for one, two in pairwise(topics):
        streams.stream(one, int).map_values(plus).to(two)
    return streams.stream(topics[-1], int)


CYCLES: dict[str, Describe] = {
    "itself": lambda s: s.stream("t", int).map_values(plus).to("t"),
    "through a second topic": lambda s: through(s, "t", "u").to("t"),
    "through a third": lambda s: through(s, "t", "u", "v").to("t"),
    "not at the start": lambda s: through(s, "t", "u", "v").to("u"),
    "in a branch": lambda s: s.stream("t", int).split().default().to("t"),
    "through a merge": lambda s: s.stream("a", int).merge(s.stream("t", int)).to("t"),
    "behind a repartition": lambda s: (
        s.stream("t", int).select_key(lambda k, _: k).group_by_key().count().to_stream().to("t")
    ),
    "of a table's changes": lambda s: s.table("t", int).map_values(plus).to_stream().to("t"),
    "through a group": lambda s: (
        s.table("t", int, store="r").group_by(lambda k, v: (k, v), values=int).count().to_stream().to("t")
    ),
    "through either side of a join": lambda s: (
        s.stream("a", int).join(s.stream("t", int), left, JoinWindows.of(SECOND)).to("t")
    ),
    "through a join of tables": lambda s: (
        s.table("a", int, store="a").join(s.table("t", int, store="b"), left).to_stream().to("t")
    ),
    "through a foreign key": lambda s: (
        s.table("a", int, store="a").foreign_key_join(s.table("t", int, store="b"), str, left).to_stream().to("t")
    ),
    "through a suppression": lambda s: s.table("t", int).suppress(until_limit(SECOND)).to_stream().to("t"),
    "through a processor": lambda s: s.stream("t", int).process(Forwards, values=int).to("t"),
}  # fmt: skip


@pytest.mark.parametrize("cycle", CYCLES)
def test_records_that_lead_to_their_own_topic(cycle: str) -> None:
    refused(CYCLES[cycle], "round for ever")


def reads_and_writes(streams: StreamsBuilder, one: str, two: str) -> None:
    streams.stream(one, int).to(two)


def keeps(streams: StreamsBuilder, topic: str, store: str, changelog: str | None = None) -> KTable[str, int]:
    return streams.table(topic, int, store=Store(store, int, changelog=changelog))


def repartitions(streams: StreamsBuilder, one: str, through: str, two: str) -> None:
    streams.stream(one, int).repartition(topic=through).to(two)


INTERNAL: dict[str, list[tuple[Any, ...]]] = {
    "writes a changelog": [(keeps, "a", "x"), (reads_and_writes, "b", "app-x-changelog")],
    "writes a changelog that was named": [(keeps, "a", "x", "log"), (reads_and_writes, "b", "log")],
    "reads a changelog": [(keeps, "a", "x"), (reads_and_writes, "app-x-changelog", "b")],
    "keeps its changes in its source": [(keeps, "a", "x", "a")],
    "has a global table of a changelog": [(keeps, "a", "x"), (StreamsBuilder.global_table, "app-x-changelog", int)],
    "keeps two stores in one topic": [(keeps, "a", "x", "log"), (keeps, "b", "y", "log")],
    "keeps a store in another's topic": [(keeps, "a", "x"), (keeps, "b", "y", "app-x-changelog")],
    "writes a repartition topic": [(repartitions, "a", "mid", "b"), (reads_and_writes, "c", "mid")],
    "repartitions twice through one topic": [(repartitions, "a", "mid", "b"), (repartitions, "c", "mid", "d")],
    "repartitions through a topic that it reads": [(repartitions, "a", "c", "b"), (reads_and_writes, "c", "d")],
    "repartitions through a changelog": [(keeps, "a", "x"), (repartitions, "b", "app-x-changelog", "c")],
}


@pytest.mark.parametrize("use", INTERNAL)
def test_internal_topics_with_another_use(use: str) -> None:
    def describe(streams: StreamsBuilder) -> None:
        for step, *arguments in INTERNAL[use]:
            step(streams, *arguments)

    refused(describe, r"use another topic|topic of its own")


@pytest.mark.parametrize("topic", ["app-dlq", "app-x-changelog"])
def test_topics_that_an_app_on_spark_has(topic: str) -> None:
    def describe(streams: StreamsBuilder, _: Any) -> None:
        streams.table("in", int, store="x").to_stream().to(topic)

    with pytest.raises(ConfigurationError, match=r"dead letters|changelog"):
        topology_app("app", describe, title="a test")


def test_markers_are_internal() -> None:
    def describe(streams: StreamsBuilder, _: Any) -> None:
        streams.table("in", int, store="x").to_stream().to("out")

    spec = topology_app("app", describe, title="a test")
    (markers,) = set(own_topics(spec, AppSettings())) - {"app-x-changelog"}

    def writes(streams: StreamsBuilder, _: Any) -> None:
        streams.table("in", int, store="x").to_stream().to(markers)

    with pytest.raises(ConfigurationError, match="markers"):
        topology_app("app", writes, title="a test")


def test_a_topic_on_the_way_is_written_and_read() -> None:
    streams = StreamsBuilder("app")
    through(streams, "a", "b", "c").to("out")
    streams.stream("d", int).to("b")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("a", "k", 1)
    assert [record.value for record in driver.read("out")] == [3]


def test_a_stream_may_write_the_table_that_it_looks_rows_up_in() -> None:
    streams = StreamsBuilder("app")
    rows = streams.table("t", int, store="t")
    streams.stream("a", int).left_join(rows, lambda value, row: value + (row or 0), values=int).to("t")
    driver = TopologyTestDriver(streams.build())
    for _ in range(3):
        driver.pipe("a", "k", 1)
    assert driver.rows("t") == [("k", 3)]


def test_a_store_without_changelog_takes_no_topic() -> None:
    streams = StreamsBuilder("app")
    streams.table("a", int, store=Store("x", int, logging=False)).to_stream().to("app-x-changelog")
    streams.build()
