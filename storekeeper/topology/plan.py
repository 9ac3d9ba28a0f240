"""Plans a topology: sub-topologies, numbers of partitions, and which repartitions may be shuffles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from storekeeper.errors import ConfigurationError, NotCopartitionedError
from storekeeper.topology.describe import as_mermaid, as_svg, as_text
from storekeeper.topology.node import Graph, GraphNode, ancestors
from storekeeper.topology.operators.repartition import RepartitionSink, RepartitionSource
from storekeeper.topology.operators.source import Source
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.topology_store import TopologyStore


@dataclass(frozen=True, slots=True)
class Plan:
    """A topology over topics whose numbers of partitions are known.

    Attributes:
        topology: what is planned.
        partitions: of every topic that is read, repartition topics included.
    """

    topology: Topology
    partitions: Mapping[str, int]

    def tasks(self, sub_topology: SubTopology) -> int:
        """How many tasks a sub-topology has: as many as its topics have partitions, one for a global table."""
        if sub_topology.is_global:
            return 1
        return max((self.partitions[source.topic] for source in sub_topology.sources), default=0)


@dataclass(frozen=True)
class Topology:
    """A finished description."""

    graph: Graph
    processor_stores: Mapping[str, TopologyStore]
    sub_topologies: tuple[SubTopology, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._attach_stores()
        object.__setattr__(self, "sub_topologies", _cut(self.graph.nodes))
        _mark_circles(self.repartitions, self.sub_topologies)

    @property
    def repartitions(self) -> list[RepartitionSink]:
        """Where records change their partition."""
        return [node for node in self.graph.nodes if isinstance(node, RepartitionSink)]

    @cached_property
    def repartition_topics(self) -> frozenset[str]:
        """The topics of all repartitions, those that are shuffles included."""
        return frozenset(sink.topic for sink in self.repartitions)

    @cached_property
    def shuffled_topics(self) -> frozenset[str]:
        """The repartition topics whose place Spark's shuffle takes."""
        return frozenset(sink.topic for sink in self.repartitions if sink.may_be_shuffle)

    def describe(self) -> str:
        """The sub-topologies with their operators, stores and topics, as text."""
        return as_text(self.sub_topologies)

    def mermaid(self) -> str:
        """The same as a Mermaid flow chart."""
        return as_mermaid(self.graph.nodes, self.sub_topologies)

    def svg(self) -> str:
        """The sub-topologies with their topics and stores, as a picture."""
        return as_svg(self.sub_topologies)

    def plan(self, partitions: Mapping[str, int], repartitioned: int | None = None) -> Plan:
        """Decides how many partitions each repartition has, and checks what is joined.

        Args:
            partitions: of the topics that the app reads.
            repartitioned: of each repartition whose number neither the user nor a join fixes. None: as many as the
                topics above it have.

        Raises:
            ConfigurationError: a topic is missing.
            NotCopartitionedError: topics that are joined have different numbers of partitions.
        """
        missing = {source.topic for source in self._plain_sources()} - partitions.keys()
        if missing:
            msg = f"the numbers of partitions of {sorted(missing)} are not known: create the topics, or pass them"
            raise ConfigurationError(msg)
        known = {source.topic: partitions[source.topic] for source in self._plain_sources()}
        known |= {sink.topic: sink.partitions for sink in self.repartitions if sink.partitions is not None}
        groups = _copartition_groups(self.graph.nodes)
        waiting = [sink for sink in self.repartitions if sink.partitions is None]
        while waiting:
            ready = [sink for sink in waiting if _may_be_counted(sink, groups, known)] or waiting[:1]
            for sink in ready:
                known[sink.topic] = _count(sink, groups, known, repartitioned)
            waiting = [sink for sink in waiting if sink.topic not in known]
        for group in groups:
            _check_equal(group, known)
        return Plan(self, known)

    def _plain_sources(self) -> list[Source]:
        return [
            node for node in self.graph.nodes if isinstance(node, Source) and not isinstance(node, RepartitionSource)
        ]

    def _attach_stores(self) -> None:
        """Gives each processor's store to the first node that names it."""
        attached = {spec.name for node in self.graph.nodes for spec in node.stores}
        for node in self.graph.nodes:
            for name in node.store_names:
                if name not in self.processor_stores:
                    msg = f"{node.name} uses store {name!r}, which is not declared: call add_store first"
                    raise ConfigurationError(msg)
                if name not in attached:
                    node.stores.append(self.processor_stores[name])
                    attached.add(name)
        names = [spec.name for node in self.graph.nodes for spec in node.stores]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ConfigurationError(f"two operators have a store called {sorted(twice)}: give each a name of its own")


def _cut(nodes: Iterable[GraphNode]) -> tuple[SubTopology, ...]:
    """Nodes that pass records on directly, or share a store, are one sub-topology."""
    leader: dict[GraphNode, GraphNode] = {}

    def find(node: GraphNode) -> GraphNode:
        while leader.setdefault(node, node) is not node:
            node = leader[node]
        return node

    users: dict[str, GraphNode] = {}
    for node in nodes:
        for parent in node.parents:
            leader[find(node)] = find(parent)
        for name in node.store_names:
            leader[find(node)] = find(users.setdefault(name, node))
    members: dict[GraphNode, list[GraphNode]] = {}
    for node in nodes:
        members.setdefault(find(node), []).append(node)
    return tuple(SubTopology(number, tuple(group)) for number, group in enumerate(members.values()))


def _mark_circles(sinks: Iterable[RepartitionSink], subs: Iterable[SubTopology]) -> None:
    """Marks the repartitions that can't be shuffles because shuffles lead from their readers back to them."""
    home = {node: sub.number for sub in subs for node in sub.nodes}
    below: dict[int, set[int]] = {}
    for sink in sinks:
        writer, reader = home[sink], home[sink.source]
        sink.closes_circle = writer in _reached(reader, below)
        if sink.may_be_shuffle:
            below.setdefault(writer, set()).add(reader)


def _reached(start: int, below: Mapping[int, set[int]]) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        new = below.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def _copartition_groups(nodes: Iterable[GraphNode]) -> list[set[Source]]:
    """Sources that must have the same number of partitions, as records of one key meet."""
    groups: list[set[Source]] = []
    for node in nodes:
        if not node.copartitioned or len(node.parents) < 2:
            continue
        group = {source for source in ancestors(node) if isinstance(source, Source)}
        touching = [other for other in groups if other & group]
        groups = [other for other in groups if not other & group]
        groups.append(group.union(*touching))
    return groups


def _group_of(sink: RepartitionSink, groups: list[set[Source]]) -> set[Source]:
    return next((group for group in groups if sink.source in group), {sink.source})


def _upstream(sink: RepartitionSink) -> set[str]:
    return {source.topic for source in ancestors(sink) if isinstance(source, Source)}


def _may_be_counted(sink: RepartitionSink, groups: list[set[Source]], known: Mapping[str, int]) -> bool:
    """Whether the count can be decided now: a topic of its group has one, or all topics above its repartitions have."""
    group = _group_of(sink, groups)
    if any(source.topic in known for source in group):
        return True
    sinks = [source.sink for source in group if isinstance(source, RepartitionSource)]
    return all(_upstream(member) <= known.keys() for member in sinks)


def _count(
    sink: RepartitionSink, groups: list[set[Source]], known: Mapping[str, int], repartitioned: int | None
) -> int:
    """The number of partitions: that of joined source topics, else a fixed one, else `repartitioned`, else the largest
    of the topics above.
    """
    group = _group_of(sink, groups)
    plain = [known[source.topic] for source in group if not isinstance(source, RepartitionSource)]
    fixed = [known[source.topic] for source in group if source.topic in known]
    sinks = [source.sink for source in group if isinstance(source, RepartitionSource)]
    above = [known[topic] for member in sinks for topic in _upstream(member) if topic in known]
    counted = above if repartitioned is None else [repartitioned]
    return max(plain or fixed or counted or [1])


def _check_equal(group: set[Source], known: Mapping[str, int]) -> None:
    counts = {source.topic: known[source.topic] for source in group}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{topic} has {counts[topic]}" for topic in sorted(counts))
        msg = f"topics whose records are joined need the same number of partitions: {shown}; repartition one of them"
        raise NotCopartitionedError(msg)
