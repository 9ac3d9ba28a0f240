"""Params of runs: strict numbers and patterns, and an error for params that the DAG doesn't have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider.notifications import notify_all

if TYPE_CHECKING:
    from airflow.sdk import Context

TEXT_END = r"(?![\s\S])"
"""The end of a text, in every dialect of regular expressions. Python's `$` also matches before a last newline."""
_SHOWN_CHARS = 60


def task_defaults(retries: int, retry_delay: timedelta = timedelta(seconds=30)) -> dict[str, Any]:
    """The `default_args` of every DAG here.

    Airflow accepts params that a DAG doesn't have. So each task refuses them before it does anything, however the run
    was triggered and whichever task was cleared.

    Args:
        retries: How often a task is tried again.
        retry_delay: How long to wait before that.
    """
    return {
        "owner": "storekeeper",
        "retries": retries,
        "retry_delay": retry_delay,
        "pre_execute": refuse_unknown_params,
        "on_failure_callback": notify_all,
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


def number_param(default: float, *, minimum: float, maximum: float, title: str, description: str) -> Param:
    """A param that is a finite number from `minimum` to `maximum`, inclusive."""
    # NaN passes every comparison of JSON schema. Only a negated comparison refuses it.
    bounds = {"minimum": minimum, "maximum": maximum, "not": {"exclusiveMinimum": maximum}}
    return Param(default, type="number", title=title, description=description, **bounds)
