"""`python -m deploy.observability` writes the dashboards that Grafana imports, next to this file."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.observability.panel import Dashboard
from deploy.observability.state_stores import STATE_STORES
from deploy.observability.stream_apps import STREAM_APPS

DASHBOARDS = (STATE_STORES, STREAM_APPS)
GRAFANA = Path(__file__).with_name("grafana")


def written(dashboard: Dashboard) -> str:
    """The content of a dashboard's file."""
    return json.dumps(dashboard.document(), indent=2) + "\n"


if __name__ == "__main__":
    GRAFANA.mkdir(exist_ok=True)
    for each in DASHBOARDS:
        (GRAFANA / f"{each.uid}.json").write_text(written(each))
