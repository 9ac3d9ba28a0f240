"""Names, sub-topologies, numbers of partitions, and what a repartition may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storekeeper.errors import ConfigurationError, NotCopartitionedError
from storekeeper.topology import (
    KStream,
    Processor,
    ProcessorContext,
    Store,
    StreamsBuilder,
    Topology,
    TopologyTestDriver,
)


def built(describe: Callable[[StreamsBuilder], object]) -> Topology:
    streams = StreamsBuilder("app")
    describe(streams)
    return streams.build()


def by_value(stream: KStream[str, int]) -> KStream[str, int]:
    return stream.select_key(lambda _, value: str(value))


def names(topology: Topology) -> list[str]:
    return [spec.name for sub in topology.sub_topologies for spec in sub.stores]


def test_names_do_not_change_when_an_operator_is_added_elsewhere() -> None:
    def before(streams: StreamsBuilder) -> None:
        stream = streams.stream("in", int)
        by_value(stream.filter(lambda _, value: value > 0)).group_by_key().count()

    def after(streams: StreamsBuilder) -> None:
        streams.stream("other", int).group_by_key().count()
        stream = streams.stream("in", int)
        stream.map_values(str).to("texts")
        stream.peek(lambda _, value: value).to("seen")
        by_value(stream.filter(lambda _, value: value > 0)).group_by_key().count()

    old, new = built(before), built(after)
    assert set(names(old)) <= set(names(new))
    assert {sink.topic for sink in old.repartitions} <= {sink.topic for sink in new.repartitions}
    assert names(old) == ["in.filter.select-key.repartition.count-store"]


def test_equal_siblings_are_numbered() -> None:
    def describe(streams: StreamsBuilder) -> None:
        stream = streams.stream("in", int)
        stream.group_by_key().count()
        stream.group_by_key().count()

    assert names(built(describe)) == ["in.count-store", "in.count-2-store"]


def test_long_names_are_cut_and_stay_different() -> None:
    def describe(streams: StreamsBuilder) -> None:
        stream = streams.stream("in", int)
        for _ in range(30):
            stream = stream.filter(lambda _, value: value > 0)
        stream.group_by_key().count()
        stream.group_by_key().count()

    first, second = names(built(describe))
    assert first != second
    assert len(second) < 100


def test_a_name_of_ones_own() -> None:
    topology = built(lambda streams: streams.stream("in", int).group_by_key().count(store="counts"))
    assert names(topology) == ["counts"]


def test_two_stores_of_one_name_are_refused() -> None:
    def describe(streams: StreamsBuilder) -> None:
        streams.stream("in", int).group_by_key().count(store="counts")
        streams.stream("other", int).group_by_key().count(store="counts")

    with pytest.raises(ConfigurationError, match="counts"):
        built(describe)


def test_a_repartition_behind_stateless_operators_may_be_a_shuffle() -> None:
    topology = built(lambda streams: by_value(streams.stream("in", int)).group_by_key().count())
    assert [sink.may_be_shuffle for sink in topology.repartitions] == [True]
    assert len(topology.sub_topologies) == 2


class Doubling:
    """A processor without state."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.context.forward(key, value * 2)


def _behind_state(streams: StreamsBuilder) -> None:
    counts = streams.stream("in", int).group_by_key().count()
    by_value(counts.to_stream()).group_by_key().count()


def _behind_a_processor(streams: StreamsBuilder) -> None:
    factory: Callable[[], Processor[str, int, str, int]] = Doubling
    by_value(streams.stream("in", int).process(factory, values=int)).group_by_key().count()


def _behind_a_global_table(streams: StreamsBuilder) -> None:
    table = streams.global_table("names", str)
    joined = streams.stream("in", int).join(table, lambda one, _: one, on=lambda key, _: key, values=int)
    by_value(joined).group_by_key().count()


def _wanted(streams: StreamsBuilder) -> None:
    by_value(streams.stream("in", int)).repartition(topic="mine").group_by_key().count()


def _of_a_table(streams: StreamsBuilder) -> None:
    streams.table("in", int).group_by(lambda key, value: (key, value), values=int).count()


def _coming_back(streams: StreamsBuilder) -> None:
    numbers = streams.stream("in", int)
    by_number = by_value(numbers).group_by_key().count()
    numbers.left_join(by_number, lambda number, count: [number, count], values=list).to("out", values=list)


@pytest.mark.parametrize(
    "describe", [_behind_state, _behind_a_processor, _behind_a_global_table, _wanted, _of_a_table, _coming_back]
)
def test_other_repartitions_are_topics(describe: Callable[[StreamsBuilder], object]) -> None:
    assert [sink.may_be_shuffle for sink in built(describe).repartitions] == [False]


def test_two_groupings_of_one_stream_share_a_repartition() -> None:
    def describe(streams: StreamsBuilder) -> None:
        stream = by_value(streams.stream("in", int))
        stream.group_by_key().count(store="one")
        stream.group_by_key().count(store="two")

    assert len(built(describe).repartitions) == 1


def test_a_free_repartition_has_as_many_partitions_as_what_it_is_joined_with() -> None:
    def describe(streams: StreamsBuilder) -> None:
        table = streams.table("customers", int)
        by_value(streams.stream("in", int)).join(table, lambda one, two: one + two, values=int).to("out")

    topology = built(describe)
    (sink,) = topology.repartitions
    assert topology.plan({"in": 3, "customers": 8}).partitions[sink.topic] == 8


def test_repartitions_get_the_number_that_is_wanted_where_nothing_fixes_it() -> None:
    def describe(streams: StreamsBuilder) -> None:
        stream, table = streams.stream("in", int), streams.table("customers", int)
        by_value(stream.filter(lambda _, value: value > 0)).group_by_key().count(store="free")
        by_value(stream.filter(lambda _, value: value > 1)).repartition(partitions=5, named="fixed")
        by_value(stream).join(table, lambda one, two: one + two, values=int, named="joined").to("out")

    topology = built(describe)
    numbers = topology.plan({"in": 3, "customers": 8}, 7).partitions
    assert sorted(numbers[sink.topic] for sink in topology.repartitions) == [5, 7, 8]
    assert (numbers["in"], numbers["customers"]) == (3, 8)


def test_topics_that_do_not_fit_are_refused_with_their_numbers() -> None:
    def describe(streams: StreamsBuilder) -> None:
        table = streams.table("customers", int)
        streams.stream("in", int).join(table, lambda one, two: one + two, values=int).to("out")

    with pytest.raises(NotCopartitionedError, match="customers has 8, in has 3"):
        built(describe).plan({"in": 3, "customers": 8})


def test_a_topic_whose_partitions_are_not_known_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="in"):
        built(lambda streams: streams.stream("in", int).to("out")).plan({})


def test_an_unknown_type_is_refused_where_it_is_needed() -> None:
    def describe(streams: StreamsBuilder) -> None:
        mapped = streams.stream("in", int).map_values(lambda value: value + 1)
        mapped.select_key(lambda key, _: key).group_by_key().count()

    with pytest.raises(ConfigurationError, match="type of the values is not known"):
        built(describe)


def test_a_description_names_operators_stores_and_topics() -> None:
    def describe(streams: StreamsBuilder) -> None:
        keyed = streams.stream("in", int).select_key(lambda _, value: str(value), named="keyed")
        keyed.group_by_key().count(store=Store("counts", int), named="counting").to_stream().to("out")

    topology = built(describe)
    assert topology.describe().splitlines() == [
        "Sub-topology 0:",
        "  in (source): topic in",
        "  keyed (select-key): from in",
        "  keyed.repartition-sink (repartition): repartition by shuffle app-keyed.repartition; from keyed",
        "Sub-topology 1:",
        "  keyed.repartition (source): topic app-keyed.repartition",
        "  counting (count): store counts; from keyed.repartition",
        "  counting.to-stream (to-stream): from counting",
        "  counting.to-stream.to (to): topic out; from counting.to-stream",
    ]
    diagram = topology.mermaid()
    assert diagram.startswith("flowchart TD")
    assert "-. shuffle .->" in diagram
    assert '[("counts")]' in diagram


class Storing(Processor[str, int, str, int]):
    def init(self, context: ProcessorContext[str, int]) -> None: ...
    def process(self, key: str, value: int, timestamp_ms: int) -> None: ...


def test_a_description_says_which_records_go_nowhere() -> None:
    def describe(streams: StreamsBuilder) -> None:
        stream = streams.stream("in", int)
        stream.filter(lambda _, value: value > 0, named="lost")
        stream.peek(lambda _, value: value, named="seen")
        stream.process(Storing, stores=["counts"], named="kept")
        stream.map_values(str).to("out")
        streams.table("unread", int)
        streams.table("rows", int, store="rows")
        streams.add_store(Store("counts", int))

    lines = built(describe).describe().splitlines()
    assert [line for line in lines if "nowhere" in line] == [
        "  lost (filter): from in; its records go nowhere",
        "  unread.table (table): from unread; its records go nowhere",
    ]


def test_an_aggregate_may_be_joined_with_the_stream_that_it_is_made_from() -> None:
    driver = TopologyTestDriver(built(_coming_back), {"in": 2})
    for number in (7, 7, 8):
        driver.pipe("in", str(number), number, 1)
    assert sorted((record.value for record in driver.read("out")), key=repr) == [[7, 1], [7, None], [8, None]]
