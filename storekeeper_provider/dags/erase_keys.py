"""Erase keys of a store for good.

**What it does.** Erases the keys of a plan that somebody made with `storekeeper erase STORE KEY`, so that no key is in
Airflow. It shows the plan, waits for **your approval**, then erases: rows, changes, earlier versions of tables, copies.
The task *erase* is tried again each hour until Kafka has removed the deletions too, which it keeps for the changelog's
`delete.retention.ms`, by default a week. It returns the certificate.

**When it runs.** On demand.

| param | values | meaning |
|---|---|---|
| `store` | a store | whose keys |
| `erasure_id` | such as `20260131T120000000Z` | what `storekeeper erase` printed |
| `approval` | true, false | whether somebody must approve in Airflow (*Required Actions*) |

**How to undo.** Nothing brings the keys back.

**If it fails.** *Refused*: a clean-up that can be undone, or a promised version, keeps the keys: the reason names it.
*Timed out* after eight days: run it again with the same id; it goes on where it was.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from storekeeper_provider.dag_parts.approval import ApproveUnlessWaivedOperator
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import TEXT_END, choice_param, operating, switch_param
from storekeeper_provider.operators import StorekeeperJobOperator

_EACH_HOUR = 8 * 24

with DAG(
    "erase_keys",
    dag_display_name="Stores: erase keys (erase_keys)",
    description="Erase keys of a store for good, after an approval.",
    doc_md=__doc__,
    tags=["stores", "cleanup"],
    **operating(retries=2, done=timedelta(days=8), ended=timedelta(days=8)),
    params={
        "store": choice_param("Store", "The store whose keys are erased.", names_beside(__file__).stores),
        "erasure_id": Param(
            type="string",
            pattern=r"^[0-9]{8}T[0-9]{9}Z" + TEXT_END,
            title="Erasure",
            description="The id that `storekeeper erase` printed.",
        ),
        "approval": switch_param("Ask first", "Wait until somebody approves the plan.", default=True),
    },
):
    plan = StorekeeperJobOperator(
        task_id="plan",
        task_display_name="Show the plan",
        arguments=["erase", "{{ params.store }}", "--run", "{{ params.erasure_id }}", "--dry-run"],
        execution_timeout=timedelta(minutes=10),
    )
    approve = ApproveUnlessWaivedOperator(
        task_id="approve",
        task_display_name="Approve",
        subject="Erase keys of {{ params.store }} for good?",
        body="{{ ti.xcom_pull(task_ids='plan')['text'] }}",
        needed="{{ params.approval }}",
        response_timeout=timedelta(days=6),
        retries=0,
    )
    erase = StorekeeperJobOperator(
        task_id="erase",
        task_display_name="Erase, and certify it",
        arguments=["erase", "{{ params.store }}", "--run", "{{ params.erasure_id }}"],
        execution_timeout=timedelta(hours=6),
        retries=_EACH_HOUR,
        retry_delay=timedelta(hours=1),
    )
    plan >> approve >> erase
