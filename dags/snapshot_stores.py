"""Snapshot the stores into Delta tables.

**What it does.** Folds what a store's changelog gained since the last snapshot into the Delta table of the store's
name, up to the end of a batch that the app has committed. The commit carries the manifest: offsets, row count, digests.

**When it runs.** Hourly, and on demand. A snapshot while nothing has changed is cheap. Stores of apps that have never
run here are skipped. A backfill is harmless: a snapshot is always of now, whichever hour the run stands for.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**What you get.** `storekeeper sql "SELECT ... FROM rewards"` reads the newest snapshot, `--at-version rewards=<n>` an
older one. The task's XCom has the result; the asset `delta_<store>` is updated, for DAGs that follow it.

**If it fails.** It is tried again twice, and repeating it is harmless: a snapshot is one Delta commit, whole or not at
all. If it keeps failing, the task's log has the job's own error; the last good snapshot stays readable.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from dags.operators.deadlines import done_within
from dags.operators.selection import ALL_STORES, ChooseStoresOperator
from dags.operators.snapshot_store import SnapshotStoreOperator
from spark_apps.registry import ON_DEMAND_STORES, STORES

_STORES = [*STORES, *ON_DEMAND_STORES]

with DAG(
    "snapshot_stores",
    dag_display_name="Stores: snapshot to Delta",
    doc_md=__doc__,
    schedule="0 * * * *",
    catchup=False,
    max_active_runs=1,
    max_active_tasks=1,
    tags=["stores", "snapshot"],
    default_args={"owner": "storekeeper", "retries": 2, "retry_delay": timedelta(seconds=30)},
    dagrun_timeout=timedelta(minutes=50),
    deadline=done_within(timedelta(minutes=45)),
    params={
        "store": Param(
            ALL_STORES, type="string", enum=[ALL_STORES, *_STORES], title="Store", description="Which stores."
        )
    },
):
    choose = ChooseStoresOperator(stores=_STORES)
    for store in _STORES:
        choose >> SnapshotStoreOperator(
            task_id=store,
            task_display_name=f"Snapshot {store}",
            store=store,
            execution_timeout=timedelta(minutes=30),
        )
