"""Prove that all copies of the stores hold the same rows.

**What it does.** For each store it folds the changelog up to the end of its newest snapshot, and up to the offsets that
each query node has applied, and compares digests of all rows. Every file of the table must be as it was sealed, and
every column what the values say. Apps and nodes keep running. A difference fails the task with the files, or with the
first differing keys of each copy, masked. `storekeeper verify` does the same.

**When it runs.** Daily at a quarter past three, after each snapshot for the stores that it updated, and on demand.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

For nodes that require a token or a certificate, set the needed ones of `STOREKEEPER_CLIENT_TOKEN_FILE`,
`STOREKEEPER_CLIENT_CA_FILE`, `STOREKEEPER_CLIENT_CERTIFICATE_FILE` and `STOREKEEPER_CLIENT_KEY_FILE`.

**Where to look.** `quality/verdicts/verify/<store>/` in the run directory has a JSON file per verdict.

**If it fails.** *Copies differ*: `missing`, `surplus` and `different` are as seen from the copy that the reason names.
A node: `storekeeper verify <store> --repair <node>` has it set the wrong rows aside, and restore them from the
changelog. A task's local store: stop the app, `--repair <app>`, start it. A table: `storekeeper snapshot restore
<store>`, or move the table and its seal away and run `snapshot_stores`. Keep what was set aside: somebody should find
out why. *Anything else*: the task is retried; a node or the broker didn't answer, which proves nothing.
"""

from __future__ import annotations

from airflow.sdk import DAG, AssetAny, AssetOrTimeSchedule

from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.choose import for_each_store, per_store
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import at

_NAMES = names_beside(__file__)

with DAG(
    "verify_stores",
    dag_display_name="Stores: verify copies (verify_stores)",
    description="Prove that changelog, snapshot and query nodes hold the same rows.",
    doc_md=__doc__,
    schedule=AssetOrTimeSchedule(timetable=at("15 3 * * *"), assets=AssetAny(*map(delta_table, _NAMES.stores))),
    tags=["stores", "quality"],
    **per_store(_NAMES),
):
    for_each_store(_NAMES, "verify", task_id="verify", display_name="Verify the copies", finding="copies differ")
