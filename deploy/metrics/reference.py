"""Every metric in one table, made from the tables of names: `python -m deploy.metrics.reference > docs/metrics.md`."""

from __future__ import annotations

import sys

from deploy.metrics.names import platform_metrics
from state.metrics.names import Metric, all_metrics

_INTRODUCTION = """\
# Metrics

Prometheus text format, on loopback unless you say otherwise. `deploy/observability/prometheus/prometheus.yml` scrapes
both kinds of addresses; `deploy/observability/grafana/` holds the dashboards, [runbooks.md](runbooks.md) the alerts.

No metric has a key, a card or an id as a label. *Like* names the metric of Kafka Streams that an operator would look
for.
"""

_PLATFORM = """\
## Stream apps, snapshots, quality: `http://127.0.0.1:18090/metrics`

One small process reads what apps write into their heartbeats, once for each scrape; it runs beside them, so that a
stream never waits for it, and what an app last said stays visible when it is dead: look at `spark_app_up` first.
Heartbeats are at most two seconds old.
A generation that is not live goes by the name of its process, `<app>-next`.

The time that a batch takes in a phase is the rate of `spark_app_batch_phase_seconds_total` divided by that of
`spark_app_batches_total`, by `app`.
"""

_NODES = """\
## Query nodes: `/metrics` of each node
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, _PLATFORM, _table(platform_metrics()), _NODES, _table(all_metrics())])


def _table(metrics: tuple[Metric, ...]) -> str:
    rows = ["| metric | kind | labels | what it says | like |", "|---|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} | {metric.kafka_streams} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
