"""Alert when a store grows too fast.

**What it does.** Counts each store's rows and bytes from its changelog. It compares the growth per day with the limits
(`STOREKEEPER_GROWTH_ROWS_PER_DAY`, `STOREKEEPER_GROWTH_BYTES_PER_DAY`) and with the usual growth: five times the median
of earlier days is reported. **A failed run of this DAG is the alert.**

**When it runs.** Every six hours, and on demand.

| param | values | meaning |
|---|---|---|
| `store` | `all` or one store | which stores |

**Where to look.** `quality/verdicts/growth/<store>/` in the run directory has a JSON file per measurement.

**If it fails.** *Grows too fast*: find out what writes those keys (`storekeeper sql`, `storekeeper scan`). If they are
wanted, raise the limit; if they are old, `cleanup_stores`. *Anything else*: the task is retried.
"""

from __future__ import annotations

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.per_store import for_each_store, per_store
from storekeeper_provider.dag_parts.runs import at

_NAMES = names_beside(__file__)

with DAG(
    "watch_growth",
    dag_display_name="Stores: watch growth (watch_growth)",
    description="Alert when a store grows too fast.",
    doc_md=__doc__,
    schedule=at("50 */6 * * *"),
    tags=["stores", "watch"],
    **per_store(_NAMES, retries=1),
):
    for_each_store(
        _NAMES,
        "check",
        "growth",
        task_id="measure",
        display_name="Measure the store",
        finding="grows too fast",
    )
