"""Prove that all copies of the stores hold the same.

**What it does.** For each store it folds the changelog exactly up to where its newest snapshot ends, and up to where
each query node stands, and compares digests of all rows. Apps and nodes go on meanwhile. A difference fails the task
with the first differing keys, masked.

**When it runs.** Daily at a quarter past three, after each snapshot for the stores that it updated, and on demand.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

Nodes that ask for a token or speak TLS: set `STOREKEEPER_CLIENT_TOKEN_FILE` and `STOREKEEPER_CLIENT_CA_FILE`.

**Where to look.** `quality/verdicts/verify/<store>/` in the run directory has a JSON file per verdict.

**If it fails.** *Copies differ*: `missing`, `surplus` and `different` are as seen from the copy that the reason names.
A node: stop it, delete its folder `state/<node>/<store>/<partition>`, start it; it restores from the changelog. A
snapshot: move the table away and run `snapshot_stores`. Keep what you removed: somebody should find out why. *Anything
else*: it is tried again; a node or the broker didn't answer, which proves nothing.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAny, AssetOrTimeSchedule, CronTriggerTimetable, Param

from dags.operators.deadlines import done_within
from dags.operators.maintenance import MaintenanceOperator
from dags.operators.selection import ALL_STORES, ChooseStoresOperator
from dags.operators.tables import snapshots_of
from spark_apps.registry import ON_DEMAND_STORES, STORES

_STORES = [*STORES, *ON_DEMAND_STORES]

with DAG(
    "verify_stores",
    dag_display_name="Stores: verify copies",
    doc_md=__doc__,
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("15 3 * * *", timezone="UTC"), assets=AssetAny(*map(snapshots_of, _STORES))
    ),
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
            task_display_name=f"Verify {store}",
            arguments=["verify", store],
            finding="copies differ",
            inlets=[snapshots_of(store)],
            execution_timeout=timedelta(minutes=30),
        )
