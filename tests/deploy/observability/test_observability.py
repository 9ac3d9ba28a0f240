"""Dashboards and rules name only metrics that exist, and alerts lead to a runbook that exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from deploy.metrics.names import platform_metrics
from deploy.observability.__main__ import DASHBOARDS, GRAFANA, written
from deploy.observability.panel import GRID_WIDTH, Dashboard
from deploy.settings import PROJECT_ROOT
from state.metrics.names import Kind, all_metrics

PROMETHEUS = PROJECT_ROOT / "deploy" / "observability" / "prometheus"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
RULE_TESTS = sorted(Path(__file__).parent.glob("rules_*.yml"))
_METRIC = re.compile(r"\b(?:[a-z]+:)?(?:state|spark|quality)_[a-z0-9_]+(?::[a-z0-9]+)?")


def rules() -> Iterator[dict[str, Any]]:
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def exported() -> set[str]:
    found: set[str] = set()
    for metric in (*all_metrics(), *platform_metrics()):
        suffixes = ("_bucket", "_count", "_sum") if metric.kind is Kind.HISTOGRAM else ("",)
        found.update(metric.name + suffix for suffix in suffixes)
    return found | {rule["record"] for rule in rules() if "record" in rule}


def unknown(expr: str) -> set[str]:
    return set(_METRIC.findall(expr)) - exported()


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
class TestDashboard:
    def test_every_metric_exists(self, dashboard: Dashboard) -> None:
        assert {expr: unknown(expr) for expr in dashboard.expressions() if unknown(expr)} == {}
        assert [variable.metric for variable in dashboard.variables if unknown(variable.metric)] == []

    def test_the_file_is_what_the_code_says(self, dashboard: Dashboard) -> None:
        file = GRAFANA / f"{dashboard.uid}.json"
        assert file.read_text() == written(dashboard), "run `python -m deploy.observability`"

    def test_no_panel_covers_another(self, dashboard: Dashboard) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in dashboard.document()["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            assert max(x for x, _ in cells) < GRID_WIDTH, panel["title"]
            taken |= cells


def test_an_unknown_metric_is_noticed() -> None:
    assert unknown("rate(state_no_such_thing_total[5m])") == {"state_no_such_thing_total"}


def test_every_metric_in_a_rule_exists() -> None:
    assert {rule["expr"]: unknown(rule["expr"]) for rule in rules() if unknown(rule["expr"])} == {}


def test_every_alert_leads_to_its_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (PROJECT_ROOT / "docs" / "runbooks.md").read_text(), re.MULTILINE)
    alerts = [rule for rule in rules() if "alert" in rule]
    assert [rule["alert"] for rule in alerts] == headings
    for rule in alerts:
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian's prometheus) is not installed")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", str(PROMETHEUS / "prometheus.yml")),
        *(("test", "rules", str(path)) for path in RULE_TESTS),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
