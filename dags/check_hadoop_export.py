"""Check the masked export and publish it.

**What it does.** Checks what was staged since the last decision: exactly the allowed columns; no card, phone, email or
postal address, plain or encoded; consistent totals; each line item once; for each store as many lines and the same
total as in topic `hadoop-sink`; a distribution like that of earlier batches. If all checks pass, the rows are published
to the Delta table `hadoop_export` in one commit. If not, **nothing of the batch is published**, the task fails with the
reasons, and readers keep the last good version.

**When it runs.** Hourly at half past, and on demand. If there is nothing new, it repeats the last verdict: a failed one
fails again until a newer batch passes or the batch is released or discarded.

**Where to look.** `quality/verdicts/hadoop_export/` in the run directory has a JSON file per verdict,
`quality/data_docs/hadoop_export/index.html` the Data Docs of the newest. The verdict on the page *Stores* leads
to them. Neither holds values of the data, nor does this task's XCom, which is the verdict.

**If it fails.** *Quarantined*: the reasons name columns, rules and numbers of rows. Find the rows in the staged table
(`storekeeper sql "SELECT ... FROM hadoop_export_staged WHERE ..."`); `_partition` and `_offset` are a row's place in
topic `hadoop-sink`. Stop the leak at its source. Then release or discard the batch with DAG `release_quarantined`.
*Anything else*: the task is retried twice; nothing was decided, and repeating it is harmless.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from dags.operators.deadlines import done_within
from dags.operators.params import task_defaults
from dags.operators.storekeeper import StorekeeperOperator
from dags.operators.tables import PUBLISHED_EXPORT, STAGED_EXPORT

with DAG(
    "check_hadoop_export",
    dag_display_name="Masked export: check and publish (check_hadoop_export)",
    description="Check the masked export, then publish or quarantine it.",
    doc_md=__doc__,
    schedule="30 * * * *",
    catchup=False,
    max_active_runs=1,
    tags=["export", "quality"],
    default_args=task_defaults(retries=2),
    dagrun_timeout=timedelta(minutes=50),
    deadline=done_within(timedelta(minutes=40)),
):
    StorekeeperOperator(
        task_id="check",
        task_display_name="Check, then publish or quarantine",
        arguments=["check", "export"],
        finding="quarantined, not published",
        inlets=[STAGED_EXPORT],
        outlets=[PUBLISHED_EXPORT],
        execution_timeout=timedelta(minutes=30),
    )
