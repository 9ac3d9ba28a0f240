"""How stores, changelog topics, partitions and nodes are connected, as a value and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from state.cluster.catalog import Catalog


@dataclass(frozen=True, slots=True)
class PartitionHolders:
    """Who has a partition: `active` is preferred, `standbys` follow in order."""

    partition: int
    active: str
    standbys: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoreTopology:
    """One store. No partitions: the broker has not told of them yet."""

    store: str
    topic: str
    kind: str
    partitions: Sequence[PartitionHolders]


@dataclass(frozen=True, slots=True)
class Topology:
    """What this node knows of the whole. `nodes` are addresses by name."""

    node: str
    nodes: Mapping[str, str]
    stores: Sequence[StoreTopology]


def topology_of(catalog: Catalog) -> Topology:
    """The topology as the catalog knows it now."""
    stores = [
        StoreTopology(name, definition.topic, definition.kind.value, holders_of(catalog, variant))
        for name in catalog.names
        if (variant := catalog.variant(name)) and (definition := catalog.definition(variant))
    ]
    return Topology(catalog.node, dict(sorted(catalog.addresses.items())), stores)


def holders_of(catalog: Catalog, store: str) -> list[PartitionHolders]:
    """The holders of each partition of a store; empty while they aren't known."""
    if not catalog.is_complete:
        return []
    found: list[PartitionHolders] = []
    for partition in range(catalog.partitions(store)):
        active, *standbys = catalog.holders(store, partition) or [""]
        found.append(PartitionHolders(partition, active, standbys))
    return found


def mermaid(topology: Topology) -> str:
    """A flowchart: changelog topic, store, and the nodes with the partitions that they hold of it."""
    lines = ["flowchart LR", *_lines(topology)]
    return "\n".join(lines) + "\n"


def _lines(topology: Topology) -> Iterator[str]:
    nodes = {name: f"node{number}" for number, name in enumerate(topology.nodes)}
    for number, store in enumerate(topology.stores):
        yield f'    topic{number}[/"{store.topic}"/] --> store{number}[("{store.store}<br/>{store.kind}")]'
        for name, held in _held(store).items():
            if name not in nodes:
                nodes[name] = f"node{len(nodes)}"
            yield f'    store{number} -- "{held}" --> {nodes[name]}'
    for name, identifier in nodes.items():
        yield f'    {identifier}["node {name}<br/>{topology.nodes.get(name, "")}"]'


def _held(store: StoreTopology) -> Mapping[str, str]:
    """The partitions that each node holds: active ones first, standbys in brackets."""
    active: dict[str, list[str]] = {}
    standby: dict[str, list[str]] = {}
    for holders in store.partitions:
        active.setdefault(holders.active, []).append(str(holders.partition))
        for node in holders.standbys:
            standby.setdefault(node, []).append(str(holders.partition))
    found: dict[str, str] = {}
    for node in sorted(active.keys() | standby.keys()):
        told = [" ".join(active.get(node, []))] if node in active else []
        told += [f"({' '.join(standby[node])})"] if node in standby else []
        found[node] = " ".join(told)
    return found
