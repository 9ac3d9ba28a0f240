"""The picture is well-formed, and says what each sub-topology reads, keeps and writes."""

from __future__ import annotations

from xml.etree import ElementTree

from storekeeper.topology import Store, StreamsBuilder
from storekeeper.topology.plan import Topology


def topology() -> Topology:
    streams = StreamsBuilder("app")
    names = streams.global_table("names", str, store="names")
    keyed = streams.stream("in", int).select_key(lambda _, value: str(value), named="keyed")
    counts = keyed.group_by_key().count(store=Store("counts", int), named="counting").to_stream()
    named = counts.join(names, lambda _, name: name, on=lambda key, _: key, values=str)
    named.to("out")
    named.select_key(lambda _, name: name, named="again").repartition().to("out", named="out-again")
    return streams.build()


def texts(picture: str) -> list[str | None]:
    namespace = "{http://www.w3.org/2000/svg}"
    return [element.text for element in ElementTree.fromstring(picture).iter(f"{namespace}text")]  # noqa: S314 (our own)


def test_it_shows_each_sub_topology_with_its_topics_and_stores() -> None:
    assert texts(topology().svg()) == [
        "Global table 0",
        "store names",
        "names",
        "Sub-topology 1",
        "in",
        "shuffle app-keyed.repartition",
        "Sub-topology 2",
        "store counts",
        "looks up names",
        "shuffle app-keyed.repartition",
        "out",
        "topic app-again.repartition",
        "Sub-topology 3",
        "topic app-again.repartition",
        "out",
    ]


def test_only_what_is_no_topic_and_no_store_is_dashed() -> None:
    picture = topology().svg()
    assert picture.count("stroke-dasharray") == 3  # both ends of the shuffle, and the look-up


def test_names_are_escaped() -> None:
    streams = StreamsBuilder("app")
    streams.stream("a<b&\"c'", int, named="source").group_by_key().count()
    assert "a<b&\"c'" in texts(streams.build().svg())
