"""Check the tables that apps stage rows for, and publish them.

**What it does.** For each declared table it checks the rows staged since the last decision, by the declaration:
columns and types; values; card and phone numbers, email and postal addresses, plain or encoded; each row once; as
many rows and the same sums as in a topic or another table; a distribution like that of earlier batches. If all checks
pass, the rows are published to the table in one commit. If not, **nothing of the batch is published**, the table's task
fails with the reasons, and readers keep the last good version. A table that fails doesn't hold back the others.

**When it runs.** When rows are staged that nobody has checked, for these tables: the platform is asked each quarter of
an hour. All tables are also checked hourly at half past, and on demand. If there is nothing new, it repeats the
last verdict: a failed one fails again until a newer batch passes or the batch is released or discarded.

| param | values | meaning |
|---|---|---|
| `table` | `all` or one table | which tables |

**Where to look.** `quality/verdicts/<table>/` in the run directory has a JSON file per verdict,
`quality/data_docs/<table>/index.html` the Data Docs of the newest. The verdict on the page *Stores* leads
to them. Neither holds values of the data, nor does this task's XCom, which is the verdict.

**If it fails.** *Quarantined*: the reasons name columns, rules and numbers of rows. Find the rows in the staged table
(`storekeeper sql "SELECT ... FROM hadoop_export_staged WHERE ..."`); `_partition` and `_offset` of the export are a
row's place in topic `hadoop-sink`. Correct the source. Then release or discard the batch with DAG
`release_quarantined`.
*Anything else*: the task is retried twice; nothing was decided, and repeating it is harmless.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAny, AssetOrTimeSchedule

from storekeeper_provider import POOL
from storekeeper_provider.dag_parts.choose import (
    TASK_TIMEOUT,
    UPDATED_TABLES,
    ChooseTablesOperator,
    TableOperator,
    table_param,
)
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import at, operating
from storekeeper_provider.staged_rows import staged_table

_NAMES = names_beside(__file__)

with DAG(
    "check_tables",
    dag_display_name="Tables: check and publish (check_tables)",
    description="Check the rows that apps have staged for their tables, then publish or quarantine them.",
    doc_md=__doc__,
    schedule=AssetOrTimeSchedule(timetable=at("30 * * * *"), assets=AssetAny(*map(staged_table, _NAMES.tables))),
    tags=["tables", "quality"],
    **operating(retries=2, done=timedelta(minutes=40), ended=timedelta(minutes=50), priority=1),
    params={"table": table_param("One table, or `all` tables that apps declare.", _NAMES.tables, all_of_them=True)},
):
    TableOperator.partial(
        task_id="check",
        task_display_name="Check, then publish or quarantine",
        map_index_template="{{ task.arguments[-1] }}",
        finding="quarantined, not published",
        inlets=[staged_table(table) for table in _NAMES.tables],
        outlets=[UPDATED_TABLES],
        execution_timeout=TASK_TIMEOUT,
        pool=POOL,
    ).expand(arguments=ChooseTablesOperator(names=_NAMES.tables, command=["check"]).output)
