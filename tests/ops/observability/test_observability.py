"""Dashboards and rules name only metrics that the page of metrics has, and alerts lead to a runbook that exists.

That what the page has is exported by running processes: `tests/integration/test_node_metrics.py` and
`test_running_platform.py` there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.project import ROOT
from tests.ops.observability.promql import Matcher, Selector, grouping_labels, selectors
from tests.ops.observability.scraped import (
    DASHBOARDS,
    NODES,
    OBSERVABILITY,
    PLATFORM,
    documented,
    recorded_labels,
    rules,
    series_names,
    uses,
)

PROMETHEUS = OBSERVABILITY / "prometheus"
RULE_TESTS = sorted(Path(__file__).parent.glob("rules_*.yml"))
_GRID_WIDTH = 24


def test_every_metric_in_a_dashboard_or_a_rule_is_documented() -> None:
    known = {name for row in documented(NODES) + documented(PLATFORM) for name in series_names(row)}
    known |= {"up", *recorded_labels()}
    asked = {selector.metric: use.place for use in uses() for selector in selectors(use.expr)}
    assert {metric: place for metric, place in asked.items() if metric not in known} == {}
    assert len(asked) > 30


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_no_panel_covers_another(path: Path) -> None:
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert not cells & taken, panel["title"]
        assert columns.stop <= _GRID_WIDTH, panel["title"]
        taken |= cells


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        ("up", [Selector("up")]),
        ("rate(a_total[5m]) / on (app) group_left () b", [Selector("a_total"), Selector("b")]),
        ("sum by (le, x) (rate(a_bucket{x=~\"$x\",y!='n'}[1m]))".replace("'", '"'), None),
        ('max(a{x="}"}) > 1e9 and time() - b unless c offset 5m', None),
        ("predict_linear(store:a:sum[6h], 7 * 86400) > 4", [Selector("store:a:sum")]),
    ],
)
def test_what_an_expression_reads(expr: str, found: list[Selector] | None) -> None:
    if found is None:
        found = {
            "s": [Selector("a_bucket", (Matcher("x", "=~", "$x"), Matcher("y", "!=", "n")))],
            "m": [Selector("a", (Matcher("x", "=", "}"),)), Selector("b"), Selector("c")],
        }[expr[0]]
    assert selectors(expr) == found


def test_the_labels_of_an_expression() -> None:
    assert grouping_labels("sum by (le, x) (a) / on (y) group_left () b") == {"le", "x", "y"}


def test_every_alert_leads_to_its_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "how-to" / "runbooks.md").read_text(), re.MULTILINE)
    alerts = [rule for rule in rules() if "alert" in rule]
    assert [rule["alert"] for rule in alerts] == headings
    for rule in alerts:
        assert rule["annotations"]["runbook"] == f"docs/how-to/runbooks.md#{rule['alert'].lower()}"


def test_runbooks_name_panels_that_there_are() -> None:
    titles = {panel["title"] for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"]}
    text = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    named = {
        name for sentence in re.findall(r"the panels? ([^;.]*)", text) for name in re.findall(r"\*([^*]+)\*", sentence)
    }
    assert len(named) > 5
    assert named - titles == set()


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
