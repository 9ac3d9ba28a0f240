"""Prove each night that the store `template_app_totals` and its table hold the same rows.

**If it fails.** The task's log has the first differing keys, masked.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from storekeeper_provider.operators import StorekeeperJobOperator
from storekeeper_provider.sensors import PlatformHealthySensor

STORE = "template_app_totals"

with DAG(
    "daily_proof",
    description="Snapshot a store and verify it.",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("0 2 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "execution_timeout": timedelta(hours=1)},
):
    healthy = PlatformHealthySensor(task_id="healthy")
    snapshot = StorekeeperJobOperator(task_id="snapshot", arguments=["snapshot", "create", STORE])
    verify = StorekeeperJobOperator(
        task_id="verify", arguments=["verify", STORE], finding="the store and its table differ"
    )
    healthy >> snapshot >> verify
