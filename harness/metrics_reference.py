"""Every metric in one table, made from the tables of names.

`python -m harness.metrics_reference > docs/reference/metrics.md` writes the page.
"""

from __future__ import annotations

import sys

from storekeeper.metrics.node_metrics import Metric, all_metrics
from storekeeper.ops.platform_metrics import platform_metrics

_INTRODUCTION = """\
# Metrics

Prometheus text format, on loopback by default. `storekeeper/ops/observability/prometheus/prometheus.yml` scrapes both
kinds of addresses. `storekeeper/ops/observability/grafana/` holds the dashboards. The alerts are in the
[runbooks](../how-to/runbooks.md).

No metric has a key, a card or an id as a label. The column *like* names the matching metric of Kafka Streams.
"""

_PLATFORM = """\
## Stream apps, snapshots, quality: `http://127.0.0.1:18091/metrics`

One small process reads the heartbeats of the apps at each scrape. It runs beside the apps, so a scrape never slows a
stream. The last values of an app stay visible after the app has died: look at `spark_app_up` first. Heartbeats are at
most two seconds old. A generation that is not live has the name of its process, `<app>-next`.

To get the time that a batch spends in a phase, divide the rate of `spark_app_batch_phase_seconds_total` by the rate of
`spark_app_batches_total`, by `app`.
"""

_NODES = """\
## Query nodes: `/metrics` of each node
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, _PLATFORM, _table(platform_metrics()), _NODES, _table(all_metrics())])


def _table(metrics: tuple[Metric, ...]) -> str:
    rows = ["| metric | kind | labels | meaning | like |", "|---|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} | {metric.kafka_streams} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
