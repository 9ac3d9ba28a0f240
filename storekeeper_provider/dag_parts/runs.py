"""Runs of DAGs: when the clock starts one, how long it may take, and an error for params that its DAG doesn't have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from airflow.sdk import CronTriggerTimetable
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider.dag_parts.deadlines import done_within
from storekeeper_provider.notifications import notify_all

if TYPE_CHECKING:
    from airflow.sdk import Context

_SHOWN_CHARS = 60


def at(cron: str) -> CronTriggerTimetable:
    """Runs at the times of `cron`, in UTC, and never for a time before the DAG was there.

    By itself, Airflow runs a new DAG at once if less than a tenth of its interval has passed since the last such time.
    A platform that has just come up would take a snapshot of each store while its apps still start.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta())


def operating(
    *, retries: int, done: timedelta, ended: timedelta, retry_delay: timedelta = timedelta(seconds=30)
) -> dict[str, Any]:
    """The arguments that every DAG here has: one run at a time, which has a deadline.

    Airflow accepts params that a DAG doesn't have. So each task refuses them before it does anything, however the run
    was triggered and whichever task was cleared.

    Args:
        retries: how often a task is tried again.
        done: the time after which a run that isn't done is reported.
        ended: the time after which a run is ended.
        retry_delay: how long to wait before a task is tried again.
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
