"""Restart the query nodes one after the other with the code that is installed now; reads have no gap.

**What it does.** Stops a node only while another node can serve each of its partitions, starts it, waits until it is
warm again (`/readyz`), and goes on to the next. A node keeps its rows, so this takes seconds unless the new code has to
rebuild them.

**When to run it.** On demand, after another version was installed or a setting of the nodes was changed. Repeating it
is harmless; a run that was lost can be replaced by a new one.

**If it fails.** *Ended after its restart*: the new code or a setting doesn't work. The nodes after it still run the old
code and answer. Correct it, or install the old version, and run this again. *It timed out*: the task's log says what
it waited for. *No other node can answer*: the store has no standbys (`STOREKEEPER_REPLICAS`), or another node is down
or restores; see `storekeeper status`.

Nodes that don't run under supervisor, such as those in containers, are not restarted.

For nodes that require a token or a certificate, set the needed ones of `STOREKEEPER_CLIENT_TOKEN_FILE`,
`STOREKEEPER_CLIENT_CA_FILE`, `STOREKEEPER_CLIENT_CERTIFICATE_FILE` and `STOREKEEPER_CLIENT_KEY_FILE`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.runs import operating
from storekeeper_provider.operators import StorekeeperJobOperator

with DAG(
    "upgrade_nodes",
    dag_display_name="Query nodes: upgrade one after the other (upgrade_nodes)",
    description="Restart the query nodes one after the other; reads have no gap.",
    doc_md=__doc__,
    tags=["nodes", "operate"],
    **operating(retries=1, done=timedelta(minutes=30), ended=timedelta(hours=3), retry_delay=timedelta(seconds=15)),
):
    StorekeeperJobOperator(
        task_id="restart",
        task_display_name="Restart, wait until warm, next",
        # A retry leaves the nodes alone that the try before it has restarted.
        arguments=["upgrade-nodes", "--since", "{{ dag_run.start_date.timestamp() }}"],
        pool="default_pool",  # it mostly waits
        execution_timeout=timedelta(hours=2),
    )
