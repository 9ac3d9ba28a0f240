"""Runs of DAGs: their params, when the clock starts one, and how long it may take."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import timedelta
from difflib import get_close_matches
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import DAG, CronTriggerTimetable, Param
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider.notifications import notify_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow.sdk import Context
    from sqlalchemy.orm import Session

_SHOWN_CHARS = 60


def at(cron: str) -> CronTriggerTimetable:
    """Runs at the times of `cron`, in UTC, and never for a time before the DAG was there.

    By itself, Airflow runs a new DAG at once if less than a tenth of its interval has passed since the last such time.
    A platform that has just come up would take a snapshot of each store while its apps still start.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta())


def operating(
    *,
    retries: int,
    done: timedelta,
    ended: timedelta,
    retry_delay: timedelta = timedelta(seconds=30),
    priority: int = 10,
) -> dict[str, Any]:
    """The arguments that every DAG here has: one run at a time, which has a deadline.

    Airflow accepts params that a DAG doesn't have. So each task refuses them before it does anything, however the run
    was triggered and whichever task was cleared.

    Args:
        retries: how often a task is tried again.
        done: the time after which a run that isn't done is reported.
        ended: the time after which a run is ended.
        retry_delay: how long to wait before a task is tried again.
        priority: of its tasks in their pool. What a person waits for comes before what the clock starts.
    """
    return {
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": ended,
        "deadline": done_within(done),
        "default_args": {
            "owner": "storekeeper",
            "retries": retries,
            "retry_delay": retry_delay,
            "priority_weight": priority,
            "weight_rule": "absolute",
            "pre_execute": refuse_unknown_params,
            "on_failure_callback": notify_all,
        },
    }


def refuse_unknown_params(context: Context) -> None:
    """Refuses a run whose conf has a param that its DAG doesn't have.

    Raises:
        AirflowFailException: It has one. The message names it and the DAG's own params.
    """
    reason = why_unknown(context["dag_run"].conf or {}, list(context["dag"].params))
    if reason is not None:
        raise AirflowFailException(reason)


def why_unknown(given: Iterable[str], known: Collection[str]) -> str | None:
    """The error message for the first unknown param; None if all are known."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return None
    nearest = get_close_matches(unknown, known, n=1)
    meant = f" Did you mean `{nearest[0]}`?" if nearest else ""
    names = ", ".join(f"`{name}`" for name in known) or "none"
    return f"there is no param `{unknown[:_SHOWN_CHARS]}`: nothing was done.{meant} The DAG's params: {names}"


log = logging.getLogger(__name__)


class RunQueuedAt(BaseDeadlineReference):
    """When a run was queued. Our plugin registers it with Airflow.

    Airflow's own `DAGRUN_QUEUED_AT` is not for runs whose tasks may be cleared: from 3.3.0 on that fails with status
    500 for as long as the run's deadline is stored (apache/airflow#70368).
    """

    required_kwargs = frozenset({"dag_id", "run_id"})

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime | None:
        from airflow.models import DagRun  # noqa: PLC0415 (only the scheduler and the API server evaluate deadlines)
        from sqlalchemy import select  # noqa: PLC0415

        return session.scalar(select(DagRun.queued_at).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


def done_within(interval: timedelta) -> DeadlineAlert:
    """The alert for runs that aren't done within `interval` after they were queued."""
    return DeadlineAlert(reference=RunQueuedAt(), interval=interval, callback=SyncCallback(report_missed_deadline))


def report_missed_deadline(context: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Logs in the scheduler's log which run is late, and notifies everybody whom the variable names."""
    run = (context or {}).get("dag_run") or {}
    dag_id, run_id = run.get("dag_id"), run.get("dag_run_id")
    log.error("run %s of DAG %s missed its deadline", run_id, dag_id)
    # Airflow gives the run alone, as its REST API shows it. Notifiers know what tasks give them.
    named = {
        "dag": DAG(str(dag_id)),  # templates are rendered by it
        "run_id": run_id,
        "ti": SimpleNamespace(dag_id=dag_id, run_id=run_id, task_id=None),
    }
    notify_all(cast("Context", {**(context or {}), **named}))


TEXT_END = r"(?![\s\S])"
"""The end of a text, in every dialect of regular expressions. Python's `$` also matches before a last newline."""


NOTHING = "(none)"
"""The one choice where a platform has nothing to choose from: a form needs one, and the command refuses this name."""


def choice_param(title: str, description: str, choices: Iterable[str]) -> Param:
    """A param that is one of the choices; by default the first. Without choices it is `NOTHING`."""
    names = list(choices) or [NOTHING]
    return Param(names[0], type="string", enum=names, title=title, description=description)


def switch_param(title: str, description: str, *, default: bool = False) -> Param:
    """A param that is true or false."""
    return Param(default, type="boolean", title=title, description=description)


def whole_param(title: str, description: str, default: int, *, minimum: int = 0, maximum: int) -> Param:
    """A param that is a whole number from `minimum` to `maximum`, inclusive."""
    return Param(default, type="integer", minimum=minimum, maximum=maximum, title=title, description=description)


def number_param(title: str, description: str, default: float, *, minimum: float, maximum: float) -> Param:
    """A param that is a finite number from `minimum` to `maximum`, inclusive."""
    # NaN passes every comparison of JSON schema. Only a negated comparison refuses it.
    bounds = {"minimum": minimum, "maximum": maximum, "not": {"exclusiveMinimum": maximum}}
    return Param(default, type="number", title=title, description=description, **bounds)
