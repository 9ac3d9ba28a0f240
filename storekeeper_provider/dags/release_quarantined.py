"""Release a quarantined batch of a table or a store, or discard it.

**What it does.** Checks the batch again with the current rules and settings and reports the rules that it breaks. It
waits for **your approval**. A release checks once more and appends the rows to the table in one commit, which
says who approved and why; a discard decides that they are never published. A store's snapshot stays where it is: a
release makes it a good version. Either is final, and recorded in `quality/resolutions/<table>/` of the run directory.

**When to run it.** On demand, when `check_tables` has failed with *quarantined, not published*, or `check_stores` with
*breaks its expectations*. `storekeeper quarantine show` names the batch.

| param | values | meaning |
|---|---|---|
| `table` | a table or a store | whose batch it is |
| `batch` | such as `12-14` | which batch |
| `action` | `release` | publish its rows after all |
| | `discard` | never publish them |
| `reason` | a sentence, in one line | why; it is recorded permanently |
| `accept` | of `presence`, `values`, `conditions`, `completeness`, `drift`, `only_grows` | rules that it may break |

Columns, masking and uniqueness can't be accepted: a batch that breaks them is discarded, or its rules are corrected
(such as `CODE_DIGITS`) and it is released then.

**If it fails.** *Refused*: there is no such batch, it was decided on before, or it breaks rules that `accept` doesn't
name; the message lists them, and nothing was published. *Anything else*: the task is retried; repeating it is harmless.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param

from storekeeper_provider.dag_parts.choose import UPDATED_TABLES, TableOperator, table_param
from storekeeper_provider.dag_parts.names import names_beside
from storekeeper_provider.dag_parts.runs import TEXT_END, choice_param, operating
from storekeeper_provider.operators import StorekeeperJobOperator

_NAMES = names_beside(__file__)
_APPROVER = "{{ (ti.xcom_pull(task_ids='approve')['responded_by_user'] or {}).get('name', 'unknown') }}"

with DAG(
    "release_quarantined",
    dag_display_name="Tables: release a quarantined batch (release_quarantined)",
    description="Publish or discard a quarantined batch of a table.",
    doc_md=__doc__,
    tags=["tables", "quality", "operate"],
    **operating(retries=2, done=timedelta(days=1), ended=timedelta(days=3)),
    params={
        "table": table_param("The table, or the store, whose batch it is.", [*_NAMES.tables, *_NAMES.stores]),
        "batch": Param(
            type="string",
            pattern=r"^[0-9]+-[0-9]+" + TEXT_END,
            title="Batch",
            description="The batch's name, such as 12-14: `storekeeper quarantine show` has them.",
        ),
        "action": choice_param(
            "Action", "`release` publishes the batch, `discard` never does.", ["release", "discard"]
        ),
        "reason": Param(
            type="string",
            minLength=10,
            pattern=r"^(?=.*\S)[^\x00-\x1f\x7f]+" + TEXT_END,
            title="Reason",
            description="Why you decide so, in one line. It is recorded permanently.",
        ),
        "accept": Param(
            [],
            type="array",
            items={"type": "string", "enum": list(_NAMES.waivable)},
            examples=list(_NAMES.waivable),
            uniqueItems=True,
            title="Accept",
            description="The rules that a released batch may break.",
        ),
    },
):
    explain = StorekeeperJobOperator(
        task_id="explain",
        task_display_name="Check again and explain",
        arguments=["quarantine", "show", "{{ params.table }}", "{{ params.batch }}", "--check-again"],
        execution_timeout=timedelta(minutes=30),
    )
    approve = ApprovalOperator(
        task_id="approve",
        task_display_name="Approve",
        subject="{{ params.action | capitalize }} batch {{ params.batch }} of {{ params.table }}?",
        body=(
            "{{ ti.xcom_pull(task_ids='explain')['rows'] }} rows. Why: {{ params.reason }}\n\n"
            "Broken now: {% for rule in ti.xcom_pull(task_ids='explain')['broken_now'] %}\n"
            "- `{{ rule.rule }}`: {{ rule.reason }}"
            "{{ '' if rule.rule in params.accept else ' **(not accepted)**' }}\n{% else %}nothing.{% endfor %}"
        ),
        response_timeout=timedelta(days=2),
        retries=0,
    )
    resolve = TableOperator(
        task_id="resolve",
        task_display_name="Release or discard",
        arguments=[
            *("quarantine", "{{ params.action }}", "{{ params.table }}", "{{ params.batch }}"),
            *("--by", _APPROVER, "--reason", "{{ params.reason }}"),
            "{% if params.action == 'release' %}--accept={{ params.accept | join(',') }}{% endif %}",
        ],
        table="{{ params.table }}",
        outlets=[UPDATED_TABLES],
        execution_timeout=timedelta(minutes=30),
    )
    explain >> approve >> resolve
