"""Start, stop and restart the stream apps.

**What it does.** Each app is a Spark driver that supervisor keeps alive. This DAG tells supervisor what is wanted and
succeeds when the app's own heartbeat agrees; it never hosts a stream, so ending a run harms nothing.

**When to run it.** On demand. The default, `ensure` for `all`, is always safe: apps that run are left alone.

| param | values | meaning |
|---|---|---|
| `app` | `all` or one app | which apps |
| `action` | `ensure` | leave a running app alone, start an ended one, restart one that is stuck |
| | `start` | start it unless it runs |
| | `stop` | finish the batch that runs, then end; the watcher leaves it stopped |
| | `restart` | stop, then start |

**If it fails.** The task's error has the app's own words and the end of its log. *Ended with exit code 78*: a setting,
a topic or the checkpoint is wrong; correct it, then run `start`. *Doesn't run after 180 s*: the broker may be down; see
`storekeeper status`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from dags.operators.deadlines import done_within
from dags.operators.stream_app import ALL_APPS, AppAction, StreamAppOperator
from spark_apps.registry import APPS

with DAG(
    "stream_apps",
    dag_display_name="Stream apps: start, stop, restart",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["streams", "operate"],
    default_args={"owner": "storekeeper", "retries": 1, "retry_delay": timedelta(seconds=15)},
    dagrun_timeout=timedelta(minutes=30),
    deadline=done_within(timedelta(minutes=15)),
    params={
        "app": Param(ALL_APPS, type="string", enum=[ALL_APPS, *APPS], title="App", description="Which apps."),
        "action": Param(
            AppAction.ENSURE.value,
            type="string",
            enum=[action.value for action in AppAction],
            title="Action",
            description="`ensure` leaves apps alone that run.",
        ),
    },
):
    for app in APPS.values():
        StreamAppOperator(
            task_id=app.name,
            task_display_name=app.title,
            app=app.name,
            selected="{{ params.app }}",
            action="{{ params.action }}",
            execution_timeout=timedelta(minutes=10),
        )
