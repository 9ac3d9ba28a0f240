"""Keep the tables of the snapshots fast and small.

**What it does.** Joins small files of each store's table (OPTIMIZE), then removes files that no promised version needs
(VACUUM). Promised are: every version of the last `STOREKEEPER_TABLE_HISTORY_DAYS`; the newest snapshot, however old it
is, for query nodes fall back on it; and what files in `promises/<table>/` of the run directory name.

**When it runs.** Daily at twenty to five, and on demand. It waits for a snapshot that is being taken.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**If it fails.** It is tried again twice, and repeating it is harmless. *Is no promise of a table's version*: correct or
remove the file that it names; nothing was removed.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from dags.operators.deadlines import done_within
from dags.operators.maintenance import MaintenanceOperator
from dags.operators.selection import ALL_STORES, ChooseStoresOperator
from spark_apps.registry import ON_DEMAND_STORES, STORES

_STORES = [*STORES, *ON_DEMAND_STORES]

with DAG(
    "maintain_tables",
    dag_display_name="Stores: maintain tables",
    doc_md=__doc__,
    schedule="40 4 * * *",
    catchup=False,
    max_active_runs=1,
    max_active_tasks=1,
    tags=["stores", "tables"],
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
        choose >> MaintenanceOperator(
            task_id=store,
            task_display_name=f"Maintain the table of {store}",
            arguments=["tables", store],
            execution_timeout=timedelta(minutes=30),
        )
