"""Sub-topologies: what runs as one task for each partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from storekeeper.topology.node import GraphNode, ancestors
from storekeeper.topology.operators.source import GlobalSource, Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.topology_store import TopologyStore


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Operators that pass records on to each other directly. It runs as one task for each partition.

    Attributes:
        number: its place in the topology.
        nodes: its operators, in the order of their declaration.
    """

    number: int
    nodes: tuple[GraphNode, ...]

    @property
    def is_global(self) -> bool:
        """Whether it reads a global table: every worker reads all partitions."""
        return any(isinstance(node, GlobalSource) for node in self.nodes)

    @property
    def sources(self) -> list[Source]:
        """The topics that it reads, repartition topics included."""
        return [node for node in self.nodes if isinstance(node, Source)]

    @property
    def sinks(self) -> list[Sink]:
        """The topics that it writes."""
        return [node for node in self.nodes if isinstance(node, Sink)]

    @property
    def stores(self) -> list[TopologyStore]:
        """The stores of each of its tasks."""
        return [spec for node in self.nodes for spec in node.stores]

    def leading_to(self, sinks: Iterable[GraphNode]) -> SubTopology:
        """The part of it that the records of some sinks come through."""
        needed = {node for sink in sinks for node in ancestors(sink)}
        return SubTopology(self.number, tuple(node for node in self.nodes if node in needed))
