"""Look after the stream apps.

**What it does.** Every minute it compares supervisor's state of each app with the app's heartbeat. It restarts an app
whose heartbeat is stale, that didn't start in time, that ended by itself, or that has input but commits no batch. The
pause between restarts doubles. If three restarts in half an hour don't help, or the app has been unhealthy for five
minutes, the task fails: **a failed run of this DAG is the alert.** It fails each minute until the app is healthy or
stopped.

It watches every process that must run: each app's; `shared_driver`, that of apps that share one, if the platform has
it; and `<app>-next` while a generation is being built or is on standby. A process that supervisor has not started since
its own start is started. An app that was stopped through supervisor (DAG `stream_apps`, action `stop`) is left alone.

**What to do on an alert.** Read the task's error: it has the reason, the app's last error and the end of its log.

| reason | remedy |
|---|---|
| *ended because of its configuration* | correct what it names, then `stream_apps` with `start` |
| *restarts did not help* | look into the log for the cause (broker, disk, memory), then `stream_apps` with `restart` |
| *input waits, but no batch was committed* | a batch hangs: see the log; try smaller batches |
| *the supervisor doesn't answer* | `storekeeper status`, then `storekeeper up` |

Limits can be set (`STOREKEEPER_WATCH_*`). To be alerted elsewhere, add an `on_failure_callback` or a notifier.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.runs import operating
from storekeeper_provider.operators import StorekeeperJobOperator

with DAG(
    "watch_streams",
    dag_display_name="Stream apps: watch and heal (watch_streams)",
    description="Restart unhealthy stream apps, and alert when that doesn't help.",
    doc_md=__doc__,
    schedule="* * * * *",
    tags=["streams", "watch"],
    **operating(retries=0, done=timedelta(minutes=5), ended=timedelta(minutes=15)),
    # The next run, a minute later, is the retry.
):
    StorekeeperJobOperator(
        task_id="watch",
        task_display_name="Watch all apps",
        arguments=["app", "watch"],
        finding="apps need attention",
        execution_timeout=timedelta(minutes=10),
    )
