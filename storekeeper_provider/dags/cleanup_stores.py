"""Delete old rows of a store.

**What it does.** Stores whose apps never delete anything grow without bounds. This DAG deletes the rows that their app
has not written for `ttl_days`. It shows what would be deleted (rows, bytes, a histogram of ages, a masked sample),
waits for **your approval**, archives the rows, deletes a small share of them and checks whether the app writes those
again. Then it deletes the rest at a limited rate, and verifies the result from the changelog.

A row that the app writes during the clean-up stays. Every step may be interrupted and repeated.

**When it runs.** On demand.

| param | values | meaning |
|---|---|---|
| `store` | a store that doesn't bound itself | which store |
| `ttl_days` | above 0, at most 36500 | delete rows that were not written for this long |
| `approval` | true, false | whether somebody must approve in Airflow (*Required Actions*) |
| `canary_share` | 0 to 1 | the share that is deleted first |
| `canary_wait_minutes` | 0 to 10080 | how long to wait after that |
| `max_came_back_share` | 0 to 1 | if more of the canary was written again, the TTL is too short: stop |
| `rate` | 1 to 100000 | deletions a second |
| `undo_days` | 0 to 90 | for how long it can be undone; the changelog's `delete.retention.ms` is the limit |

**What the app sees.** The rows are gone for the app, too: its state is the changelog. A key that comes back starts from
nothing. `players` is derived from `standings`: clean up both.

**How to undo.** DAG `undo_cleanup` with the id that the task *preview* returned. The time for it begins with the task
*canary*. Later, `maintain_tables` deletes the archive.

**If it fails.** *Refused*: the reason says why; nothing more was deleted. *Anything else*: the task
is retried and resumes.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.approval import ApproveUnlessWaivedOperator, PauseOperator
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import choice_param, number_param, operating, switch_param, whole_param
from storekeeper_provider.operators import StorekeeperJobOperator

_PREVIEWED = "{{ ti.xcom_pull(task_ids='preview')['cleanup_id'] }}"

with DAG(
    "cleanup_stores",
    dag_display_name="Stores: clean up (cleanup_stores)",
    description="Delete old rows of a store, after a preview and an approval.",
    doc_md=__doc__,
    tags=["stores", "cleanup"],
    **operating(retries=2, done=timedelta(days=1), ended=timedelta(days=8)),
    params={
        "store": choice_param("Store", "The store to clean up.", names_beside(__file__).cleanable_stores),
        "ttl_days": number_param(
            "TTL, days",
            "Delete the rows that their app has not written for this number of days.",
            365,
            minimum=0.000001,
            maximum=36_500,
        ),
        "approval": switch_param("Ask first", "Wait until somebody approves the preview.", default=True),
        "canary_share": number_param(
            "Canary", "The share of these rows that is deleted first, from 0 to 1.", 0.01, minimum=0, maximum=1
        ),
        "canary_wait_minutes": number_param(
            "Wait, minutes", "How long to wait after the canary.", 60, minimum=0, maximum=10080
        ),
        "max_came_back_share": number_param(
            "May come back",
            "Stop if the app writes more than this share of the canary again.",
            0.02,
            minimum=0,
            maximum=1,
        ),
        "rate": whole_param("Rate", "Most deletions a second.", 2000, minimum=1, maximum=100_000),
        "undo_days": number_param(
            "Undo, days", "For how many days the clean-up can be undone.", 7, minimum=0, maximum=90
        ),
    },
):
    preview = StorekeeperJobOperator(
        task_id="preview",
        task_display_name="Preview",
        arguments=[
            *("cleanup", "preview", "{{ params.store }}"),
            *("--ttl-days", "{{ params.ttl_days }}", "--canary-share", "{{ params.canary_share }}"),
            *("--max-came-back-share", "{{ params.max_came_back_share }}", "--rate", "{{ params.rate }}"),
            *("--undo-days", "{{ params.undo_days }}"),
        ],
        execution_timeout=timedelta(minutes=30),
    )
    approve = ApproveUnlessWaivedOperator(
        task_id="approve",
        task_display_name="Approve",
        subject="Delete the old rows of {{ params.store }}?",
        body="{{ ti.xcom_pull(task_ids='preview')['text'] }}",
        needed="{{ params.approval }}",
        response_timeout=timedelta(days=6),
        retries=0,
    )
    canary = StorekeeperJobOperator(
        task_id="canary",
        task_display_name="Archive all, delete the canary",
        arguments=["cleanup", "run", "{{ params.store }}", _PREVIEWED, "--only-canary"],
        execution_timeout=timedelta(hours=1),
    )
    pause = PauseOperator(
        task_id="wait",
        task_display_name="Wait and see whether rows come back",
        minutes="{{ params.canary_wait_minutes }}",
        execution_timeout=timedelta(days=8),
    )
    delete = StorekeeperJobOperator(
        task_id="delete",
        task_display_name="Delete the rest and verify",
        arguments=["cleanup", "run", "{{ params.store }}", _PREVIEWED],
        execution_timeout=timedelta(hours=6),
    )
    preview >> approve >> canary >> pause >> delete
