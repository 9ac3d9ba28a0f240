"""Restore the rows that a clean-up deleted.

**What it does.** Writes the archived rows of a clean-up into the changelog again, with their old values and timestamps.
A row that its app has written since stays as the app wrote it.

**When it runs.** On demand, for as many days as the clean-up's `undo_days` say.

| param | values | meaning |
|---|---|---|
| `store` | the clean-up's store | which store |
| `cleanup_id` | such as `20260131T120000000Z` | what the task *preview* of `cleanup_stores` returned |

**If it fails.** *Refused*: it is too late, or there is no such clean-up: the reason lists the existing ones.
*Anything else*: the task is retried and resumes.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import TEXT_END, choice_param, operating
from storekeeper_provider.operators import StorekeeperJobOperator

with DAG(
    "undo_cleanup",
    dag_display_name="Stores: undo a clean-up (undo_cleanup)",
    description="Restore the rows that a clean-up deleted.",
    doc_md=__doc__,
    tags=["stores", "cleanup"],
    **operating(retries=2, done=timedelta(hours=2), ended=timedelta(hours=6)),
    params={
        "store": choice_param("Store", "The store of the clean-up.", names_beside(__file__).cleanable_stores),
        "cleanup_id": Param(
            type="string",
            pattern=r"^[0-9]{8}T[0-9]{9}Z" + TEXT_END,
            title="Clean-up",
            description="The id that the task preview of cleanup_stores returned.",
        ),
    },
):
    StorekeeperJobOperator(
        task_id="undo",
        task_display_name="Bring the rows back",
        arguments=["cleanup", "undo", "{{ params.store }}", "{{ params.cleanup_id }}"],
        execution_timeout=timedelta(hours=6),
    )
