"""Panels of Grafana dashboards as data, laid out from left to right, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID_WIDTH = 24
_HEIGHT = 7
_SCHEMA_VERSION = 39


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are named in the legend."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: what it shows.
        queries: its series.
        unit: Grafana's name of the unit: s, ms, bytes, ops, short, percentunit, …
        about: what to make of it, shown behind the panel's (i).
        kind: timeseries, stat, gauge or table.
        width: in columns of 24.
        thresholds: values from which it turns yellow and red, ascending; none for no colours.
    """

    title: str
    queries: Sequence[Query]
    unit: str
    about: str
    kind: str = "timeseries"
    width: int = 8
    thresholds: tuple[float, ...] = ()

    def document(self, number: int, x: int, y: int) -> dict[str, Any]:
        """As Grafana reads it, with its number on the board and its place."""
        steps = zip(("green", "yellow", "red"), (None, *self.thresholds), strict=False)
        document: dict[str, Any] = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.about,
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": _HEIGHT},
            "targets": [
                {
                    "refId": chr(ord("A") + index),
                    "datasource": DATASOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend,
                }
                for index, query in enumerate(self.queries)
            ],
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
        }
        if self.thresholds:
            mode = [{"color": color, "value": value} for color, value in steps]
            document["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": mode}
        return document


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label of a metric."""

    name: str
    metric: str

    def document(self) -> dict[str, Any]:
        """As Grafana reads it."""
        return {
            "name": self.name,
            "type": "query",
            "datasource": DATASOURCE,
            "query": f"label_values({self.metric}, {self.name})",
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A whole board. `uid` is its lasting address."""

    uid: str
    title: str
    about: str
    variables: Sequence[Variable]
    rows: Sequence[Row]

    def document(self) -> dict[str, Any]:
        """As Grafana imports it."""
        datasource = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["storekeeper"],
            "schemaVersion": _SCHEMA_VERSION,
            "editable": True,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [datasource, *(variable.document() for variable in self.variables)]},
            "panels": list(_laid_out(self.rows)),
        }

    def expressions(self) -> Iterator[str]:
        """Every PromQL expression on it."""
        for row in self.rows:
            for panel in row.panels:
                yield from (query.expr for query in panel.queries)


def _laid_out(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": GRID_WIDTH, "h": 1},
        }  # fmt: skip
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > GRID_WIDTH:
                x, y = 0, y + _HEIGHT
            number += 1
            yield panel.document(number, x, y)
            x += panel.width
        y += _HEIGHT
