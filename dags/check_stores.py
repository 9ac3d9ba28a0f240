"""Check what the stores' snapshots hold.

**What it does.** Checks the newest snapshot of each store with Great Expectations: no field is missing, nothing that is
counted is negative, and nothing that only grows (totals, counts, last times) is less than in the snapshot before. The
table stays as it is whatever comes out.

**When it runs.** After each snapshot, for the stores that it updated, and on demand.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**Where to look.** `quality/verdicts/snapshot/<store>/` in the run directory has a JSON file per verdict: rules and
numbers of rows, no value of the data.

**If it fails.** *Breaks its expectations*: the reasons name columns and numbers of rows. Find them with
`storekeeper sql`, compare with `--at-version`, and follow `_partition` and `_offset` to the changelog. *Anything else*:
it is tried again.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAny, Param

from dags.operators.deadlines import done_within
from dags.operators.maintenance import MaintenanceOperator
from dags.operators.selection import ALL_STORES, ChooseStoresOperator
from dags.operators.tables import snapshots_of
from spark_apps.registry import ON_DEMAND_STORES, STORES

_STORES = [*STORES, *ON_DEMAND_STORES]

with DAG(
    "check_stores",
    dag_display_name="Stores: check snapshots",
    doc_md=__doc__,
    schedule=AssetAny(*map(snapshots_of, _STORES)),
    catchup=False,
    max_active_runs=1,
    max_active_tasks=1,
    tags=["stores", "quality"],
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
            task_display_name=f"Check {store}",
            module="quality.snapshot_check",
            arguments=[store],
            finding="breaks its expectations",
            inlets=[snapshots_of(store)],
            execution_timeout=timedelta(minutes=30),
        )
