"""A topology to look at: as text, as a Mermaid diagram, and as an SVG picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from storekeeper.topology.node import GraphNode
from storekeeper.topology.operators.process import Process
from storekeeper.topology.operators.repartition import RepartitionSink, RepartitionSource
from storekeeper.topology.operators.source import Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.operators.stream_table_join import GlobalJoin
from storekeeper.topology.sub_topology import SubTopology

THROUGH_TOPIC = "topic"
"""The transport of a repartition that a topic of the app's own carries."""


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
    return "shuffle" if sink.may_be_shuffle else THROUGH_TOPIC


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


_CHAR = 7.5  # the width of a character of the font below
_BOX, _STEP, _GAP, _MARGIN = 26, 34, 44, 10


@dataclass(frozen=True, slots=True)
class _Label:
    """A box of the picture. `dashed` ones are not topics or stores of their own: shuffles, and tables looked up."""

    text: str
    dashed: bool = False

    @property
    def width(self) -> float:
        return len(self.text) * _CHAR + 20


@dataclass(frozen=True, slots=True)
class _Row:
    title: _Label
    reads: list[_Label]
    keeps: list[_Label]
    writes: list[_Label]

    @property
    def height(self) -> int:
        return max(len(self.reads), len(self.keeps) + 1, len(self.writes)) * _STEP + _MARGIN


def as_svg(sub_topologies: Iterable[SubTopology]) -> str:
    """The picture, a whole SVG document in the color of the text around it."""
    rows = [_row(sub) for sub in sub_topologies]
    reads = _width(label for row in rows for label in row.reads)
    writes = _width(label for row in rows for label in row.writes)
    middle = _width(label for row in rows for label in (row.title, *row.keeps)) + 2 * _MARGIN
    left = _MARGIN + reads + _GAP
    right = left + middle + _GAP
    shapes, top = [], _MARGIN
    for row in rows:
        shapes.append(_rectangle(left, top, middle, row.height))
        shapes.append(_text(left + _MARGIN, top + 20, row.title.text, bold=True))
        for number, label in enumerate(row.keeps, 1):
            shapes.append(_box(left + _MARGIN, top + _MARGIN / 2 + number * _STEP, label, rounded=4))
        for number, label in enumerate(row.reads):
            y = top + _MARGIN / 2 + number * _STEP
            shapes += [_box(_MARGIN, y, label), _arrow(_MARGIN + label.width, left, y + _BOX / 2)]
        for number, label in enumerate(row.writes):
            y = top + _MARGIN / 2 + number * _STEP
            shapes += [_box(right, y, label), _arrow(left + middle, right, y + _BOX / 2)]
        top += row.height + 2 * _MARGIN
    wide = right + writes + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{top:g}" viewBox="0 0 {wide:g} {top:g}" '
        'role="img" aria-label="Sub-topologies with their topics and stores" font-family="monospace" font-size="12">'
        f"{''.join(shapes)}</svg>"
    )


def _row(sub: SubTopology) -> _Row:
    looked_up = [_Label(f"looks up {node.table.spec.name}", dashed=True)
                 for node in sub.nodes if isinstance(node, GlobalJoin)]  # fmt: skip
    return _Row(
        _Label(title(sub)),
        _distinct(map(_picture_topic, sub.sources)),
        _distinct([*(_Label(f"store {spec.name}") for spec in sub.stores), *looked_up]),
        _distinct(map(_picture_topic, sub.sinks)),
    )


def _picture_topic(node: Source | Sink) -> _Label:
    sink = node.sink if isinstance(node, RepartitionSource) else node
    if isinstance(sink, RepartitionSink):
        return _Label(f"{transport(sink)} {sink.topic}", dashed=sink.may_be_shuffle)
    return _Label(node.topic)


def _distinct(labels: Iterable[_Label]) -> list[_Label]:
    return list(dict.fromkeys(labels))


def _width(labels: Iterable[_Label]) -> float:
    return max((label.width for label in labels), default=0.0)


def _rectangle(x: float, y: float, width: float, height: float, *, rounded: float = 8, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{rounded:g}" fill="none" '
        f'stroke="currentColor"{dashes}/>'
    )


def _box(x: float, y: float, label: _Label, *, rounded: float = _BOX / 2) -> str:
    shape = _rectangle(x, y, label.width, _BOX, rounded=rounded, dashed=label.dashed)
    return shape + _text(x + 10, y + 17, label.text)


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" fill="currentColor"{weight}>{escape(text)}</text>'


def _arrow(start: float, end: float, y: float) -> str:
    return f'<path d="M{start:g} {y:g}H{end:g}m-6 -4l6 4l-6 4" fill="none" stroke="currentColor"/>'
