"""Close the day: prove the rewards, then check and publish the masked line items.

**What it does.** When the last tills have closed, it takes a snapshot of the store `rewards` and proves that changelog,
table and query nodes hold the same rows. Then it has the quality gate publish what was exported until now, so that
the tables have the whole day in the morning.

**If it fails.** The first task waits for the apps of the tills: see `storekeeper status`. The others say why in their
logs. Each may be cleared and run again.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from storekeeper_provider.assets import delta_table
from storekeeper_provider.operators import StorekeeperJobOperator
from storekeeper_provider.sensors import PlatformHealthySensor

with DAG(
    "close_of_day",
    description="Prove the rewards, and publish the day's line items.",
    doc_md=__doc__,
    schedule=CronTriggerTimetable("30 22 * * *", timezone="Asia/Kolkata"),
    catchup=False,
    max_active_runs=1,
    tags=["tills"],
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "execution_timeout": timedelta(hours=1)},
):
    open_tills = PlatformHealthySensor(task_id="tills_work", processes=["pos", "hadoop_export"])
    snapshot = StorekeeperJobOperator(
        task_id="snapshot_rewards", arguments=["snapshot", "create", "rewards"], outlets=[delta_table("rewards")]
    )
    verify = StorekeeperJobOperator(
        task_id="verify_rewards", arguments=["verify", "rewards"], finding="changelog, table and nodes differ"
    )
    publish = StorekeeperJobOperator(
        task_id="publish_export",
        arguments=["check", "hadoop_export"],
        finding="quarantined, not published",
        outlets=[delta_table("hadoop_export")],
    )
    open_tills >> snapshot >> verify
    open_tills >> publish
