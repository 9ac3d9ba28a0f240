"""Go back to the generation of an app that was live before.

**What it does.** Cancels a hand-over in progress. After a hand-over, it switches readers back to the old generation's
changelog, which every node has kept warm, and gives the outputs back to the old generation. Nothing that was read or
written in between is lost: the old generation continues from the same input offsets. Then it takes a snapshot, so that
SQL shows the old generation's columns and rows as well.

**When it runs.** On demand, until the old generation is retired. It waits until that one has all
records that readers have seen.

| param | values | meaning |
|---|---|---|
| `app` | an app that can have generations | whose generation |
| `discard` | true, false | then end the abandoned generation, and delete its topics and files |

**If it fails.** *Refused*: there is nothing to go back to: the reason says so. *Anything else*: the old generation has
not caught up yet; the task is retried and resumes. Readers are switched back first. *snapshot* failed: only
SQL is behind. Clear the task, or wait for `snapshot_stores`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from storekeeper_provider.dag_parts.generation import (
    GenerationOperator,
    SkipUnlessOperator,
    changeable_app,
    not_live_after,
    snapshot_after,
)
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import operating, switch_param

_NAMES = names_beside(__file__)
_APP = "{{ params.app }}"

with DAG(
    "rollback_state",
    dag_display_name="Stores: roll a migration back (rollback_state)",
    description="Go back to the generation of an app that was live before.",
    doc_md=__doc__,
    tags=["stores", "migration"],
    **operating(retries=5, done=timedelta(minutes=15), ended=timedelta(hours=2), retry_delay=timedelta(seconds=10)),
    params={
        "app": changeable_app(_NAMES, "The app to roll back."),
        "discard": switch_param("Discard", "Then delete the topics and files of the abandoned generation."),
    },
):
    roll_back = GenerationOperator(
        task_id="roll_back",
        task_display_name="Roll back",
        arguments=["generation rollback", _APP],
        execution_timeout=timedelta(minutes=30),
    )
    snapshot = snapshot_after("roll_back", task_id="snapshot", task_display_name="Snapshot what is live again")
    wanted = SkipUnlessOperator(
        task_id="wanted",
        task_display_name="Discard it?",
        wanted="{{ params.discard }}",
        execution_timeout=timedelta(minutes=5),
    )
    discard = GenerationOperator(
        task_id="discard",
        task_display_name="Discard the abandoned generation",
        arguments=["generation retire", _APP, not_live_after("roll_back"), "--delete"],
        execution_timeout=timedelta(minutes=30),
    )
    roll_back >> snapshot >> wanted >> discard
