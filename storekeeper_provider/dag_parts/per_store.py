"""DAGs with a task for each store: their arguments and the choice of stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from storekeeper_provider import CONNECTION
from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.choose import ALL, ChooseOperator
from storekeeper_provider.dag_parts.names import Names
from storekeeper_provider.dag_parts.params import choice_param
from storekeeper_provider.dag_parts.runs import operating
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import StorekeeperJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

TASK_TIMEOUT = timedelta(minutes=30)
"""How long the task of one store may take."""


def per_store(names: Names, *, retries: int = 2) -> dict[str, Any]:
    """Arguments of a DAG for one store or all of them: one run at a time, done within the hour.

    The control API bounds the jobs that run at once (`jobs_at_once`): a deferred task holds no slot of Airflow.
    """
    return {
        **operating(retries=retries, done=timedelta(minutes=45), ended=timedelta(minutes=50)),
        "params": {
            "store": choice_param(
                "Store",
                "One store, or `all`: each store whose app has ever run on this platform.",
                [ALL, *names.stores],
            )
        },
    }


def for_each_store(
    names: Names,
    *command: str,
    task_id: str,
    display_name: str,
    operator: type[StorekeeperJobOperator] = StorekeeperJobOperator,
    **options: Any,
) -> None:
    """Adds the choice of stores to the current DAG, and a mapped task that runs a command for each chosen store.

    Args:
        names: the platform's.
        *command: the words in front of the store's name.
        task_id: of the mapped task.
        display_name: of the mapped task.
        operator: runs the command; its `arguments` are the command and the store's name.
        **options: further arguments of the operator.
    """
    choose = ChooseStoresOperator(stores=names.stores, command=command)
    mapped = operator.partial(
        task_id=task_id,
        task_display_name=display_name,
        map_index_template="{{ task.arguments[-1] }}",
        execution_timeout=TASK_TIMEOUT,
        **options,
    )
    mapped.expand(arguments=choose.output)


class ChooseStoresOperator(ChooseOperator):
    """Chooses the stores whose snapshots started the run, or that its params name.

    "all" means every store whose app has ever run in this run directory.

    Args:
        stores: the names of all stores that there are snapshots of.
        selected: the store that the run is for, or "all". Templated.
        storekeeper_conn_id: the connection.
        **kwargs: those of `ChooseOperator`.
    """

    def __init__(
        self,
        *,
        stores: Sequence[str],
        selected: str = "{{ params.store }}",
        storekeeper_conn_id: str = CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(selected=selected, **{"task_display_name": "Choose stores", **kwargs})
        self.stores = tuple(stores)
        self.storekeeper_conn_id = storekeeper_conn_id

    def chosen(self, context: Context) -> list[str]:
        """The stores that the run is for."""
        updated = self.updated(context)
        found = [store for store in self.stores if delta_table(store).name in updated] if updated else self._selected()
        self.log.info("stores: %s", ", ".join(found) or "none, as no app has run here yet")
        return found

    def _selected(self) -> list[str]:
        """The stores in the params: "all" leaves out those whose apps have never run."""
        if self.selected != ALL:
            return [store for store in self.stores if store == self.selected]
        there = StorekeeperHook(self.storekeeper_conn_id).stores()
        return [store["store"] for store in there if store["has_run"]]
