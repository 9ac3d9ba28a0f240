"""A picture of a benchmark's measures: bars, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = ("#2a6f97", "#c77b30")
_WIDTH, _LABELS, _FIGURES = 760, 300, 90
_BAR, _GAP, _HEAD = 14, 8, 28


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars of one unit.

    Attributes:
        title: what they show, with the unit.
        labels: the name of each row, from the top.
        series: the figures of each series, one a row; at most two series.
        names: the name of each series; none if there is one.
    """

    title: str
    labels: Sequence[str]
    series: Sequence[Sequence[float]]
    names: Sequence[str] = ()


def svg(panels: Sequence[Panel]) -> str:
    """A picture of panels, one below another."""
    drawn: list[str] = []
    top = 0
    for panel in panels:
        drawn.extend(_panel(panel, top))
        top += _height(panel)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top + _GAP}" '
        f'font-family="sans-serif" font-size="12" role="img">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{"".join(drawn)}</svg>\n'
    )


def _height(panel: Panel) -> int:
    return _HEAD + len(panel.labels) * (_BAR * len(panel.series) + _GAP) + _GAP


def _panel(panel: Panel, top: int) -> Iterator[str]:
    most = max(max(figures) for figures in panel.series)
    named = "".join(
        f' <tspan fill="{colour}">■</tspan> {escape(name)}' for name, colour in zip(panel.names, _COLOURS, strict=False)
    )
    yield f'<text x="8" y="{top + 18}" font-weight="bold">{escape(panel.title)}{named}</text>\n'
    y = top + _HEAD
    for row, label in enumerate(panel.labels):
        middle = y + _BAR * len(panel.series) / 2 + 4
        yield f'<text x="{_LABELS - 8}" y="{middle:g}" text-anchor="end">{escape(label)}</text>\n'
        for figures, colour in zip(panel.series, _COLOURS, strict=False):
            width = round(figures[row] / most * (_WIDTH - _LABELS - _FIGURES)) if most else 0
            yield f'<rect x="{_LABELS}" y="{y}" width="{width}" height="{_BAR - 2}" fill="{colour}"/>\n'
            yield f'<text x="{_LABELS + width + 6}" y="{y + 11}">{_figure(figures[row])}</text>\n'
            y += _BAR
        y += _GAP


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
