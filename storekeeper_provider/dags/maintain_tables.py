"""Keep the tables of the snapshots fast and small, and delete old archives of clean-ups.

**What it does.** Joins small files of each store's table (OPTIMIZE), then removes files that no promised version needs
(VACUUM). Promised versions are: all of the last `STOREKEEPER_TABLE_HISTORY_DAYS`; the newest snapshot, however old it
is, because query nodes fall back on it; and those named by files in `promises/<table>/` of the run directory. Of a
history it drops the changes older than `STOREKEEPER_HISTORY_DAYS` that are not the newest of their key, and sorts the
days that are over by key. It also
deletes the archives of the store's clean-ups that can't be undone any more.

**When it runs.** Daily at twenty to five, and on demand. It waits for a snapshot that is being taken.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | whose tables |

**If it fails.** It is retried twice, and repeating it is harmless. *Is no promise of a table's version*: correct or
remove the file that it names; nothing was removed. *A retry can't help: table … isn't as it was sealed*:
`storekeeper snapshot restore <store>` restores its last snapshot; nothing was removed.
"""

from __future__ import annotations

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.choose import for_each_store, per_store
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import at

_NAMES = names_beside(__file__)

with DAG(
    "maintain_tables",
    dag_display_name="Stores: maintain tables (maintain_tables)",
    description="Join small files of the snapshots' tables, and remove old ones.",
    doc_md=__doc__,
    schedule=at("40 4 * * *"),
    tags=["stores", "tables"],
    **per_store(_NAMES),
):
    for_each_store(_NAMES, "snapshot", "optimize", task_id="maintain", display_name="Maintain the table")
