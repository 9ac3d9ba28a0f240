"""Shared by DAGs with a task for each store: their arguments, and the task that chooses the stores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Param

from dags.operators.deadlines import done_within
from dags.operators.params import task_defaults
from dags.operators.selection import ALL_STORES, ChooseStoresOperator
from spark_apps.registry import stores

EVERY_STORE = tuple(stores())
"""The names of all stores that there are snapshots of."""
TASK_TIMEOUT = timedelta(minutes=30)
"""How long the task of one store may take."""


def per_store(*, retries: int = 2) -> dict[str, Any]:
    """Arguments of a DAG for one store or all of them: one run at a time, one store at a time, done within the hour."""
    return {
        "catchup": False,
        "max_active_runs": 1,
        "max_active_tasks": 1,
        "default_args": task_defaults(retries=retries),
        "dagrun_timeout": timedelta(minutes=50),
        "deadline": done_within(timedelta(minutes=45)),
        "params": {
            "store": Param(
                ALL_STORES, type="string", enum=[ALL_STORES, *EVERY_STORE], title="Store", description="Which stores."
            )
        },
    }


def for_each_store(task: Callable[[str], BaseOperator]) -> None:
    """Adds a task per store to the current DAG, downstream of the choice. `task` makes it, named after the store."""
    choose = ChooseStoresOperator(stores=list(EVERY_STORE))
    for store in EVERY_STORE:
        choose >> task(store)
