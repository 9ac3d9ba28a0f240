"""Snapshot the stores into Delta tables.

**What it does.** Appends the changelog records since the last snapshot to the store's history, up to the end of a batch
that the app has committed, and folds them into the store's Delta table. Each commit carries its manifest: offsets,
batch, row count, digests. There is a task for each app, and the tables of its stores end at the same batch.

**When it runs.** Hourly, and on demand. With a shorter `history_minutes`, the histories go on that often; the tables
are still written once an hour, and by each run on demand. A snapshot while nothing has changed is cheap. Stores of
apps that have never run here are skipped. An Airflow backfill is harmless: a snapshot has the current state, whatever
the run's date.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**What you get.** `storekeeper sql "SELECT ... FROM rewards"` reads the newest snapshot, `--at rewards=<n>` an
older one. A task's XCom has the result; the asset `delta_<store>` of each store is updated, for DAGs that follow it.

**If it fails.** It is retried twice, and repeating it is harmless: each step is one atomic Delta commit. The other
stores of the app have their snapshots all the same; their assets follow with the next run that succeeds. If it keeps
failing, the task's log has the job's own error; the last good snapshot stays readable. *A retry can't help: table …
isn't as it was sealed*: nothing is merged into such a table. `storekeeper snapshot restore <store>` restores its last
snapshot.
"""

from __future__ import annotations

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.choose import (
    UPDATED_SNAPSHOTS,
    ChooseStoresByAppOperator,
    TableOperator,
    for_each_store,
    per_store,
)
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import at

_NAMES = names_beside(__file__)

with DAG(
    "snapshot_stores",
    dag_display_name="Stores: snapshot to Delta (snapshot_stores)",
    description="Bring the stores' Delta tables up to date.",
    doc_md=__doc__,
    schedule=at(f"{','.join(map(str, range(0, 60, _NAMES.history_minutes)))} * * * *"),
    tags=["stores", "snapshot"],
    **per_store(_NAMES),
):
    for_each_store(
        _NAMES,
        "snapshot",
        "create",
        "{{ '--when-due' if dag_run.run_type == 'scheduled' else '' }}",
        choose=ChooseStoresByAppOperator,
        operator=TableOperator,
        task_id="snapshot",
        display_name="Take a snapshot",
        outlets=[UPDATED_SNAPSHOTS],
    )
