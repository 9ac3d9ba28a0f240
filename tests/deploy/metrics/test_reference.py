"""The page of metrics is the tables of names."""

from __future__ import annotations

from deploy.metrics.names import platform_metrics
from deploy.metrics.reference import reference
from deploy.settings import PROJECT_ROOT
from state.metrics.names import all_metrics


def test_every_metric_is_documented() -> None:
    page = (PROJECT_ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    assert page == reference(), "run `python -m deploy.metrics.reference > docs/reference/metrics.md`"
    for metric in (*platform_metrics(), *all_metrics()):
        assert f"`{metric.name}`" in page
