"""Change what an app's stores hold: their fields, keys or partitions, while reads and writes go on.

**What it does.** A new *generation* of the app starts beside the running one, with the topology of the last migration.
It is seeded with the rows of the live one at the end of a batch, converted by the migrations, and reads the input on.
When it has caught up, both stop at the same input offsets and **every key is compared**. Only if nothing differs does
the new one take over the outputs, and readers switch to its changelogs. The old one keeps running until you retire it,
so that a rollback loses nothing.

A **backfill** (`since`) starts empty and reads the input again, from its beginning or from a time. Use it if the
computation changes. Its rows may differ from the old ones; *hand_over* then refuses it with the numbers of rows, unless
`accept_differences` is true.

The run stops twice for **your decision** (*Required Actions*): on the plan, before anything is created; and after the
watch, on whether to retire the old generation, keep both, or roll back.

**When it runs.** On demand. `storekeeper plan` prints the same plan, and the params to use.

| param | values | meaning |
|---|---|---|
| `app` | an app that can have generations | whose stores |
| `migrations` | names, in order | the changes; none only copies |
| `partitions` | 0 to 10000 | of each new changelog; 0 leaves them as they are |
| `copy` | true, false | go on even if nothing changes |
| `since` | nothing, `beginning`, or a time as 2026-01-31T00:00:00Z | read the input again from there, without a seed |
| `accept_differences` | true, false | with `since`: hand over even if rows differ |
| `approval` | true, false | whether somebody must approve the plan |
| `max_behind` | 0 to 1000000000 | input records that the new one may be behind when the hand-over begins |
| `watch_minutes` | 0 to 10080 | how long to watch before the second decision |
| `afterwards` | `ask`, `retire`, `keep`, `roll back` | the second decision in advance; `ask` waits for it |
| `delete` | true, false | with `retire`: delete the old changelogs, checkpoint and local stores, too; else they stay |

**What readers see.** Reads have no gap. Nodes restore the new changelog beside the old one. Each node switches over by
itself once every partition is ready everywhere. If the keys change, callers must use the new ones from then on:
`GET /state/stores/{store}` says which generation answers.

**How to go back.** Any time until the old generation is retired: DAG `rollback_state`.

**How to resume.** Every task may be cleared and run again; it resumes. A run that was lost can be replaced by a new one
with the same params.

**Processes.** The new generation runs as `<app>-next`. At the hand-over the two generations swap processes: the app's
own process, or the shared driver, always runs the live one.

**If it fails.** *plan* refused: the reason says which migrations fit. *seed* refused: rows can't be converted, nothing
was started; correct the migration or the rows, then clear the task. *catch_up* failed: see the log of `<app>-next`.
*hand_over* refused: the generations differ; nothing has changed for readers, the old one is live. Retire the new one
with `storekeeper generation retire <app>` and start again. *check* failed: run `rollback_state`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

from storekeeper_provider.dag_parts.approval import ApproveUnlessWaivedOperator, PauseOperator
from storekeeper_provider.dag_parts.generation import (
    ASK,
    DecideOperator,
    GenerationOperator,
    HealthyAfterwardsOperator,
    changeable_app,
    not_live_after,
    snapshot_after,
)
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import (
    TEXT_END,
    choice_param,
    number_param,
    operating,
    switch_param,
    whole_param,
)
from storekeeper_provider.sensors import CaughtUpSensor

_NAMES = names_beside(__file__)
_APP = "{{ params.app }}"
_CHANGES = "{% for name in params.migrations %}--migration {{ name }} {% endfor %}"
_PARTITIONS = "{{ '--partitions %d' | format(params.partitions) if params.partitions else '' }}"
# Not `params.copy`: that is the method of that name.
_COPY = "{{ '--copy' if params['copy'] or params.since else '' }}"
_SINCE = "{{ '--from ' ~ params.since if params.since else '' }}"
_ACCEPT = "{{ '--accept-differences' if params.accept_differences else '' }}"
_MIGRATIONS = list(_NAMES.migrations)
_WAYS = {"retire": "retire", "keep": "keep", "roll back": "roll_back"}

with DAG(
    "migrate_state",
    dag_display_name="Stores: migrate (migrate_state)",
    description="Change what an app's stores hold while reads and writes go on.",
    doc_md=__doc__,
    tags=["stores", "migration"],
    **operating(retries=3, done=timedelta(days=2), ended=timedelta(days=8)),
    params={
        "app": changeable_app(_NAMES, "The app whose stores change."),
        "migrations": Param(
            [],
            type="array",
            items={"type": "string", "enum": _MIGRATIONS},
            examples=_MIGRATIONS,
            title="Migrations",
            description="The changes to make, each after the one that it builds on. None only copies.",
        ),
        "partitions": whole_param("Partitions", "Of each new changelog; 0 leaves them as they are.", 0, maximum=10_000),
        "copy": switch_param("Copy", "Make a new generation even if nothing changes."),
        "since": Param(
            "",
            type="string",
            pattern=rf"^(|beginning|\d{{4}}-\d\d-\d\dT[0-9:.+Z-]{{5,24}}){TEXT_END}",
            title="Backfill since",
            description="Start empty and read the input again: from its `beginning`, or from a time with its zone, "
            "such as 2026-01-31T00:00:00Z. Empty: start with the rows of the live generation.",
        ),
        "accept_differences": switch_param(
            "Accept differences", "Hand over to a backfill even if its rows differ from the live ones."
        ),
        "approval": switch_param("Ask first", "Wait until somebody approves the plan.", default=True),
        "max_behind": whole_param(
            "May be behind",
            "Input records that the new generation may be behind when the hand-over begins.",
            10_000,
            maximum=1_000_000_000,
        ),
        "watch_minutes": number_param(
            "Watch, minutes",
            "How long to watch the new generation before the second decision.",
            60,
            minimum=0,
            maximum=10_080,
        ),
        "afterwards": choice_param(
            "Afterwards", "What to do with the old generation; `ask` waits for a decision.", [ASK, *_WAYS]
        ),
        "delete": switch_param("Delete", "With `retire`: delete the old generation's topics and files, too."),
    },
):
    plan = GenerationOperator(
        task_id="plan",
        task_display_name="Plan",
        arguments=["generation plan", _APP, _CHANGES, _PARTITIONS, _COPY, _SINCE, _ACCEPT],
        execution_timeout=timedelta(minutes=10),
    )
    approve = ApproveUnlessWaivedOperator(
        task_id="approve",
        task_display_name="Approve the plan",
        subject="{{ 'Recompute' if params.since else 'Change' }} the stores of {{ params.app }}?",
        body="{{ ti.xcom_pull(task_ids='plan')['text'] }}",
        needed="{{ params.approval }}",
        response_timeout=timedelta(days=3),
        ignore_downstream_trigger_rules=True,
        retries=0,
    )
    seed = GenerationOperator(
        task_id="seed",
        task_display_name="Seed the new generation",
        arguments=["generation seed", _APP, _CHANGES, _PARTITIONS, _SINCE],
        execution_timeout=timedelta(hours=2),
    )
    start = GenerationOperator(
        task_id="start",
        task_display_name="Start it beside the old one",
        arguments=["app start {{ params.app }}-next"],
        pool="default_pool",
        execution_timeout=timedelta(minutes=15),
    )
    catch_up = CaughtUpSensor(
        task_id="catch_up",
        task_display_name="Wait until it has caught up",
        app=_APP,
        max_behind="{{ params.max_behind }}",
        patience=timedelta(hours=12),
        execution_timeout=timedelta(minutes=10),
    )
    hand_over = GenerationOperator(
        task_id="hand_over",
        task_display_name="Compare every key, then hand over",
        arguments=["generation handover", _APP, "--max-behind {{ [params.max_behind * 10, 100000] | max }}", _ACCEPT],
        execution_timeout=timedelta(hours=1),
    )
    snapshot = snapshot_after("hand_over", task_id="snapshot", task_display_name="Take its first snapshot")
    watch = PauseOperator(
        task_id="watch",
        task_display_name="Watch",
        minutes="{{ params.watch_minutes }}",
        execution_timeout=timedelta(days=8),
    )
    check = HealthyAfterwardsOperator(
        task_id="check",
        task_display_name="Check that it runs well",
        app=_APP,
        live="{{ ti.xcom_pull(task_ids='hand_over')['live'] }}",
        execution_timeout=timedelta(minutes=10),
    )
    decide = DecideOperator(
        task_id="decide",
        task_display_name="Retire, keep or roll back",
        subject="What becomes of the old generation of {{ params.app }}?",
        body="Generation {{ ti.xcom_pull(task_ids='hand_over')['live'] }} is live and healthy. Until the old one is "
        "retired, going back takes seconds.",
        decided="{{ params.afterwards }}",
        options=[*_WAYS],
        options_mapping=_WAYS,
        response_timeout=timedelta(days=4),
        retries=0,
    )
    retire = GenerationOperator(
        task_id="retire",
        task_display_name="Retire the old one",
        # By its number: somebody may have rolled back since the decision was asked for.
        arguments=[
            *("generation retire", _APP, not_live_after("hand_over")),
            "{{ '--delete' if params.delete else '' }}",
        ],
        execution_timeout=timedelta(minutes=30),
    )
    keep = EmptyOperator(task_id="keep", task_display_name="Keep both", execution_timeout=timedelta(minutes=5))
    roll_back = GenerationOperator(
        task_id="roll_back",
        task_display_name="Roll back",
        arguments=["generation rollback", _APP],
        execution_timeout=timedelta(minutes=30),
    )
    plan >> approve >> seed >> start >> catch_up >> hand_over >> snapshot >> watch >> check >> decide
    decide >> [retire, keep, roll_back]
    roll_back >> snapshot_after("roll_back", task_id="snapshot_again", task_display_name="Snapshot what is live again")
