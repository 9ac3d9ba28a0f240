"""A topology to look at: as text, and as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from storekeeper.topology.node import GraphNode
from storekeeper.topology.operators.process import Process
from storekeeper.topology.operators.repartition import RepartitionSink, RepartitionSource
from storekeeper.topology.operators.source import Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.operators.stream_table_join import GlobalJoin
from storekeeper.topology.sub_topology import SubTopology


def as_text(sub_topologies: Iterable[SubTopology]) -> str:
    """Each sub-topology with its operators, stores and topics, one line each."""
    return "\n".join(line for sub in sub_topologies for line in _lines(sub))


def as_mermaid(nodes: Sequence[GraphNode], sub_topologies: Iterable[SubTopology]) -> str:
    """A flow chart: operators as boxes, topics as arrows in and out, stores as cylinders."""
    ids = {node: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart TD"]
    for sub in sub_topologies:
        lines.append(f"  subgraph s{sub.number}[{title(sub)}]")
        for node in sub.nodes:
            lines.append(f'    {ids[node]}["{node.name}"]')
            lines += [f'    {ids[node]} --- {ids[node]}s{number}[("{spec.name}")]'
                      for number, spec in enumerate(node.stores)]  # fmt: skip
        lines.append("  end")
    for node in nodes:
        lines += [f"  {ids[parent]} --> {ids[node]}" for parent in node.parents]
        if isinstance(node, RepartitionSource):
            lines.append(f"  {ids[node.sink]} -. {transport(node.sink)} .-> {ids[node]}")
        elif isinstance(node, Source):
            lines.append(f'  {ids[node]}t{{{{"{node.topic}"}}}} --> {ids[node]}')
        elif isinstance(node, Sink) and not isinstance(node, RepartitionSink):
            lines.append(f'  {ids[node]} --> {ids[node]}t{{{{"{node.topic}"}}}}')
    return "\n".join(lines)


def transport(sink: RepartitionSink) -> str:
    """How records get from one sub-topology to the next."""
    return "shuffle" if sink.may_be_shuffle else "topic"


def title(sub: SubTopology) -> str:
    """What a sub-topology is called in descriptions."""
    return f"Global table {sub.number}" if sub.is_global else f"Sub-topology {sub.number}"


def _lines(sub: SubTopology) -> Iterator[str]:
    yield f"{title(sub)}:"
    for node in sub.nodes:
        details = [detail for detail in (_topic(node), _stores(node)) if detail]
        above = ", ".join(parent.name for parent in node.parents)
        if above:
            details.append(f"from {above}")
        if _goes_nowhere(node):
            details.append("its records go nowhere")
        yield f"  {node.name} ({node.kind if node.parents else 'source'}): {'; '.join(details)}"


def _goes_nowhere(node: GraphNode) -> bool:
    """Whether records end here without a trace. An action or a processor may leave one."""
    leaves_a_trace = isinstance(node, Sink | Process) or node.kind == "peek"
    return not (node.children or node.stores or node.store_names or leaves_a_trace)


def _topic(node: GraphNode) -> str:
    if isinstance(node, RepartitionSink):
        fixed = "" if node.partitions is None else f", {node.partitions} partitions"
        return f"repartition by {transport(node)} {node.topic}{fixed}"
    if isinstance(node, Source | Sink):
        return f"topic {node.topic}"
    return f"looks up {node.table.spec.name}" if isinstance(node, GlobalJoin) else ""


def _stores(node: GraphNode) -> str:
    names = [spec.name for spec in node.stores] + [name for name in node.store_names if name not in
                                                   {spec.name for spec in node.stores}]  # fmt: skip
    return f"store {', '.join(names)}" if names else ""
