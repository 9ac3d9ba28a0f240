"""Check the rows of the stores' snapshots.

**What it does.** Checks the newest snapshot of each store with Great Expectations: no field is missing, nothing that is
counted is negative, nothing that only grows (totals, counts, last times) is less than in the last good snapshot, and
the rules that the store's app declares hold. The check never changes the table. A snapshot that fails is quarantined:
`storekeeper sql --at <store>=good` goes on reading the last good one.

**When it runs.** After each snapshot, for the stores that it updated, and on demand. If there is no new snapshot, it
repeats the last verdict.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**Where to look.** `quality/verdicts/<store>/` in the run directory has a JSON file per verdict: rules and numbers of
rows, no value of the data. `quality/data_docs/<store>/index.html` has the Data Docs of the newest.

**If it fails.** *Breaks its expectations*: the reasons name columns and numbers of rows. Find them with
`storekeeper sql`, compare with `--at`, and follow `_partition` and `_offset` to the changelog. Then release or discard
the snapshot with DAG `release_quarantined`, or wait for a better one. *Anything else*: the task is retried.
"""

from __future__ import annotations

from airflow.sdk import DAG, AssetAny

from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.choose import for_each_store, per_store
from storekeeper_provider.dag_parts.names import names_beside

_NAMES = names_beside(__file__)

with DAG(
    "check_stores",
    dag_display_name="Stores: check snapshots (check_stores)",
    description="Check the rows of the stores' newest snapshots.",
    doc_md=__doc__,
    schedule=AssetAny(*map(delta_table, _NAMES.stores)),
    tags=["stores", "quality"],
    **per_store(_NAMES),
):
    for_each_store(
        _NAMES,
        "check",
        task_id="check",
        display_name="Check the snapshot",
        finding="breaks its expectations",
    )
