"""The names of a generation's tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.topology import Store, StreamsBuilder, Topology
from storekeeper.topology.slots import assigned, slot_of

Describe = Callable[[StreamsBuilder], object]


def built(*parts: Describe) -> Topology:
    streams = StreamsBuilder("app")
    for part in parts:
        part(streams)
    return streams.build()


def points(streams: StreamsBuilder) -> None:
    streams.stream("purchases", int).group_by_key().count(store="points")


def customers(streams: StreamsBuilder) -> None:
    streams.table("customers", int, store="customers")


def joined(streams: StreamsBuilder) -> None:
    table = streams.table("customers", int, store="customers")
    streams.stream("purchases", int).join(table, lambda one, two: one + two, values=int).to("joined")


def by_value(streams: StreamsBuilder) -> None:
    streams.stream("purchases", int).select_key(lambda _, value: str(value)).group_by_key().count(store="values")


def by_filtered_value(streams: StreamsBuilder) -> None:
    chosen = streams.stream("purchases", int).filter(lambda _, value: value > 0)
    chosen.select_key(lambda _, value: str(value)).group_by_key().count(store="values")


def names(topology: Topology, slots: dict[str, list[str]]) -> list[str]:
    return [slot_of(sub, slots) for sub in topology.sub_topologies if not sub.is_global]


def test_a_first_start_names_tasks_after_their_first_topic() -> None:
    assert assigned(built(points, joined), {}) == {
        "customers": ["store customers", "store points", "topic customers", "topic purchases"]
    }
    assert names(built(joined), {}) == ["customers"]


@pytest.mark.parametrize("order", [(points, joined), (joined, points)])
def test_a_topic_that_sorts_earlier_changes_no_name(order: tuple[Describe, ...]) -> None:
    before = assigned(built(points), {})
    more = built(*order)
    slots = assigned(more, before)
    assert list(slots) == names(more, slots) == ["purchases"]
    assert assigned(more, slots) == slots
    assert slots["purchases"] == ["store customers", "store points", "topic customers", "topic purchases"]


def test_a_repartition_with_another_name_keeps_the_name_by_its_store() -> None:
    before = assigned(built(by_value), {})
    assert assigned(built(by_filtered_value), before).keys() == before.keys()


def test_new_tasks_get_a_name_of_their_own() -> None:
    first, other = built(points), built(points, customers)
    assert list(assigned(other, assigned(first, {}))) == ["purchases", "customers"]
    taken = {"customers": ["topic purchases"]}
    slots = assigned(other, taken)
    assert slots == {
        "customers": ["store points", "topic purchases"], "customers-2": ["store customers", "topic customers"],
    }  # fmt: skip
    assert names(other, slots) == ["customers", "customers-2"]


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (
            (points, customers),
            (points, joined),
            "meet in the same tasks now, and were in those of customers and of pur",
        ),
        ((points, joined), (points, customers), "topic customers, .* were in the same tasks, customers"),
        ((points, customers), (points,), "nothing has topic customers, store customers any more"),
    ],
)
def test_tasks_that_can_not_go_on_are_refused(
    first: tuple[Describe, ...], then: tuple[Describe, ...], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"{says}.*make a new generation"):
        assigned(built(*then), assigned(built(*first), {}))


def test_a_store_may_be_called_as_anothers_topic() -> None:
    def alike(streams: StreamsBuilder) -> None:
        streams.stream("a", int).group_by_key().count(store=Store("b", int))
        streams.stream("b", int).group_by_key().count(store=Store("a", int))

    slots = assigned(built(alike), {})
    assert assigned(built(alike), slots) == slots
    assert names(built(alike), slots) == ["a", "b"]
