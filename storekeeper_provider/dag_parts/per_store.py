"""DAGs about stores: their arguments, the choice of stores, and the task that runs a command for one or for an app."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset

from storekeeper_provider import CONNECTION
from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.choose import ALL, ChooseOperator
from storekeeper_provider.dag_parts.names import Names
from storekeeper_provider.dag_parts.runs import choice_param, operating
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import StorekeeperJobOperator

TASK_TIMEOUT = timedelta(minutes=30)
"""How long the task of one store, or of the stores of one app, may take."""


def per_store(names: Names) -> dict[str, Any]:
    """Arguments of a DAG for one store or all of them: one run at a time, done within the hour.

    The control API bounds the jobs that run at once (`jobs_at_once`): a deferred task holds no slot of Airflow.
    """
    return {
        **operating(retries=2, done=timedelta(minutes=45), ended=timedelta(minutes=50)),
        "params": {
            "store": choice_param(
                "Store",
                "One store, or `all`: each store whose app has ever run on this platform.",
                [ALL, *names.stores],
            )
        },
    }


class ChooseStoresOperator(ChooseOperator):
    """Chooses the stores whose snapshots started the run, or that its params name.

    "all" means every store whose app has ever run in this run directory.

    Args:
        selected: the store that the run is for, or "all". Templated.
        storekeeper_conn_id: the connection.
        **kwargs: those of `ChooseOperator`.
    """

    def __init__(
        self, *, selected: str = "{{ params.store }}", storekeeper_conn_id: str = CONNECTION, **kwargs: Any
    ) -> None:
        super().__init__(selected=selected, **{"task_display_name": "Choose stores", **kwargs})
        self.storekeeper_conn_id = storekeeper_conn_id

    def asset(self, name: str) -> Asset:
        """The table of the store's snapshots."""
        return delta_table(name)

    def everything(self) -> list[str]:
        """The stores whose apps have ever run here."""
        return [store["store"] for store in StorekeeperHook(self.storekeeper_conn_id).stores() if store["has_run"]]


class ChooseStoresByAppOperator(ChooseStoresOperator):
    """Chooses as `ChooseStoresOperator` does. The stores of one app share a task."""

    def grouped(self, names: Sequence[str]) -> list[list[str]]:
        """The chosen stores of each app."""
        apps = {store["store"]: store["app"] for store in StorekeeperHook(self.storekeeper_conn_id).stores()}
        stores: dict[str, list[str]] = {}
        for name in names:
            stores.setdefault(apps.get(name, name), []).append(name)
        return list(stores.values())


def for_each_store(
    names: Names,
    *command: str,
    task_id: str,
    display_name: str,
    choose: type[ChooseStoresOperator] = ChooseStoresOperator,
    operator: type[StorekeeperJobOperator] = StorekeeperJobOperator,
    **options: Any,
) -> None:
    """Adds the choice of stores to the current DAG, and a mapped task that runs a command for the chosen stores.

    Args:
        names: the platform's.
        *command: the words in front of the stores' names.
        task_id: of the mapped task.
        display_name: of the mapped task.
        choose: chooses the stores, and which of them share a task.
        operator: runs the command; its `arguments` are the command and the stores' names.
        **options: further arguments of the operator.
    """
    chosen = choose(names=names.stores, command=command)
    mapped = operator.partial(
        task_id=task_id,
        task_display_name=display_name,
        map_index_template=f"{{{{ task.arguments[{len(command)}:] | join(', ') }}}}",
        execution_timeout=TASK_TIMEOUT,
        **options,
    )
    mapped.expand(arguments=chosen.output)
