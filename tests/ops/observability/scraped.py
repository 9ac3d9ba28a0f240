"""Scrapes of real processes, compared with what dashboards, rules and the page of metrics name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from harness.project import ROOT
from tests.ops.observability.promql import Selector, grouping_labels, selectors

OBSERVABILITY = ROOT / "storekeeper" / "ops" / "observability"
RULES = sorted((OBSERVABILITY / "prometheus" / "rules").glob("*.yml"))
DASHBOARDS = sorted((OBSERVABILITY / "grafana").glob("*.json"))
NODES, PLATFORM = "Query nodes", "Stream apps"
"""How the sections of `docs/reference/metrics.md` begin."""
_OF_PROMETHEUS = {"instance", "job"}
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
_LEGEND_LABEL = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
_VARIABLE = re.compile(r"label_values\((\w+), (\w+)\)")


@dataclass(frozen=True, slots=True)
class Use:
    """An expression, where it stands, and the labels that its legend or summary shows."""

    place: str
    expr: str
    shown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Documented:
    """A row of the page of metrics."""

    name: str
    kind: str
    labels: frozenset[str]


class Scrape:
    """The samples of one or several answers to Prometheus."""

    def __init__(self, *texts: str) -> None:
        self._series: dict[str, list[dict[str, str]]] = {}
        self.families: dict[str, str] = {}
        for family in (family for text in texts for family in text_string_to_metric_families(text)):
            if family.samples:
                self.families[_exported(family.name, family.type)] = family.type
            for sample in family.samples:
                self._series.setdefault(sample.name, []).append(sample.labels)

    def labels(self, metric: str) -> set[str]:
        """The labels of a metric's samples; none if there is no sample."""
        return {label for labels in self._series.get(metric, ()) for label in labels}

    def shows(self, selector: Selector) -> bool:
        """Whether there is a sample that the selector takes."""
        matchers = [matcher for matcher in selector.matchers if matcher.label not in _OF_PROMETHEUS]
        series = self._series.get(selector.metric, ())
        return any(all(matcher.holds(labels) for matcher in matchers) for labels in series)

    def unmet(self, uses: Iterable[Use]) -> dict[str, str]:
        """What is asked for and not there, by the place that asks for it."""
        recorded = recorded_labels()
        found = {}
        for use in uses:
            asked = selectors(use.expr)
            there = set(_OF_PROMETHEUS)
            for selector in asked:
                there |= recorded.get(selector.metric, self.labels(selector.metric))
            absent = [s.metric for s in asked if s.metric not in {"up", *recorded} and not self.shows(s)]
            absent += sorted((grouping_labels(use.expr) | use.shown) - there)
            if absent:
                found[f"{use.place}: {use.expr}"] = ", ".join(absent)
        return found

    def undocumented(self, rows: Iterable[Documented]) -> set[str]:
        """The metrics that no row names."""
        return set(self.families) - {row.name for row in rows}

    def unlike(self, rows: Iterable[Documented]) -> dict[str, str]:
        """The rows that no sample bears out: their names, and what is there instead."""
        found = {}
        for row in rows:
            labels = self.labels(f"{row.name}_bucket") - {"le"} if row.kind == "histogram" else self.labels(row.name)
            if (self.families.get(row.name), labels) != (row.kind, set(row.labels)):
                found[row.name] = f"{self.families.get(row.name)} with {sorted(labels)}"
        return found


def documented(section: str) -> list[Documented]:
    """The rows of a section of the page of metrics."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    (text,) = [part for part in page.split("\n## ") if part.startswith(section)]
    return [
        Documented(name, kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(text)
    ]


def rules() -> Iterator[dict[str, Any]]:
    """Every alert and every recorded series."""
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def recorded_labels() -> dict[str, set[str]]:
    """The series that rules record, with their labels."""
    return {rule["record"]: grouping_labels(rule["expr"]) for rule in rules() if "record" in rule}


def uses() -> Iterator[Use]:
    """Every expression of a dashboard or a rule."""
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        for variable in board["templating"]["list"]:
            for metric, label in _VARIABLE.findall(variable["query"]):
                yield Use(f"{path.stem}, variable", metric, frozenset({label}))
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                shown = frozenset(_LEGEND_LABEL.findall(target["legendFormat"]))
                yield Use(f"{path.stem}, {panel['title']}", target["expr"], shown)
    for rule in rules():
        shown = frozenset(_LEGEND_LABEL.findall(rule.get("annotations", {}).get("summary", "")))
        yield Use(rule.get("alert") or rule["record"], rule["expr"], shown - {"value"})


def uses_of(rows: Iterable[Documented]) -> list[Use]:
    """The expressions that read one of these metrics."""
    names = {name for row in rows for name in series_names(row)}
    return [use for use in uses() if {selector.metric for selector in selectors(use.expr)} & names]


def series_names(row: Documented) -> set[str]:
    """The names of the samples of a metric."""
    return {f"{row.name}_{part}" for part in ("bucket", "count", "sum")} if row.kind == "histogram" else {row.name}


def _exported(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name
