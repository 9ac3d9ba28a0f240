"""Tell when a store grows too fast.

**What it does.** Counts each store's rows and bytes from its changelog and compares their growth a day with the limits
(`STOREKEEPER_GROWTH_ROWS_PER_DAY`, `STOREKEEPER_GROWTH_BYTES_PER_DAY`) and with what is usual: five times the median of
earlier days is reported. **A failed run of this DAG is the alert.**

**When it runs.** Every six hours, and on demand.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**Where to look.** `quality/verdicts/growth/<store>/` in the run directory has a JSON file per measurement.

**If it fails.** *Grows too fast*: find out what writes those keys (`storekeeper sql`, `storekeeper scan`). If they are
wanted, raise the limit; if they are old, `cleanup_stores`. *Anything else*: it is tried again.
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
    "watch_growth",
    dag_display_name="Stores: watch growth",
    doc_md=__doc__,
    schedule="50 */6 * * *",
    catchup=False,
    max_active_runs=1,
    max_active_tasks=1,
    tags=["stores", "watch"],
    default_args={"owner": "storekeeper", "retries": 1, "retry_delay": timedelta(seconds=30)},
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
            task_display_name=f"Measure {store}",
            arguments=["growth", store],
            finding="grows too fast",
            execution_timeout=timedelta(minutes=30),
        )
