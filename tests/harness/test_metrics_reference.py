"""The page of metrics is the tables of names."""

from __future__ import annotations

from harness.metrics_reference import reference
from harness.project import ROOT
from storekeeper.metrics.node_metrics import all_metrics
from storekeeper.ops.platform_metrics import platform_metrics


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    assert page == reference(), "run `python -m harness.metrics_reference > docs/reference/metrics.md`"
    for metric in (*platform_metrics(), *all_metrics()):
        assert f"`{metric.name}`" in page
