"""DAGs with a task for each store: their arguments and the choice of stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Param

from dags.operators.deadlines import done_within
from dags.operators.params import task_defaults
from dags.operators.tables import table_asset
from spark_apps.registry import stores
from storekeeper_provider import CONNECTION
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import StorekeeperJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL_STORES = "all"
EVERY_STORE = tuple(stores())
"""The names of all stores that there are snapshots of."""
TASK_TIMEOUT = timedelta(minutes=30)
"""How long the task of one store may take."""


def per_store(*, retries: int = 2) -> dict[str, Any]:
    """Arguments of a DAG for one store or all of them: one run at a time, done within the hour.

    The control API bounds the jobs that run at once (`jobs_at_once`): a deferred task holds no slot of Airflow.
    """
    return {
        "catchup": False,
        "max_active_runs": 1,
        "max_active_tasks": 1,
        "default_args": task_defaults(retries=retries),
        "dagrun_timeout": timedelta(minutes=50),
        "deadline": done_within(timedelta(minutes=45)),
        "params": {
            "store": Param(
                ALL_STORES,
                type="string",
                enum=[ALL_STORES, *EVERY_STORE],
                title="Store",
                description="One store, or `all`: each store whose app has ever run on this platform.",
            )
        },
    }


def for_each_store(
    *command: str,
    task_id: str,
    display_name: str,
    operator: type[StorekeeperJobOperator] = StorekeeperJobOperator,
    **options: Any,
) -> None:
    """Adds the choice of stores to the current DAG, and a mapped task that runs a command for each chosen store.

    Args:
        *command: the words in front of the store's name.
        task_id: of the mapped task.
        display_name: of the mapped task.
        operator: runs the command; its `arguments` are the command and the store's name.
        **options: further arguments of the operator.
    """
    choose = ChooseStoresOperator(command=command)
    mapped = operator.partial(
        task_id=task_id,
        task_display_name=display_name,
        map_index_template="{{ task.arguments[-1] }}",
        execution_timeout=TASK_TIMEOUT,
        **options,
    )
    mapped.expand(arguments=choose.output)


class ChooseStoresOperator(BaseOperator):
    """Returns, for each chosen store, the arguments of its task: the command and the store's name.

    A run triggered by updated snapshots is for their stores. Any other run is for the store in its params; "all" means
    every store whose app has ever run in this run directory.

    Args:
        command: the words in front of the store's name.
        selected: the store that the run is for, or "all". Templated.
        storekeeper_conn_id: the connection.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected",)
    ui_color = "#e8e8e8"

    def __init__(
        self,
        *,
        command: Sequence[str],
        selected: str = "{{ params.store }}",
        storekeeper_conn_id: str = CONNECTION,
        **kwargs: Any,
    ) -> None:
        kwargs = {
            "task_id": "choose",
            "task_display_name": "Choose stores",
            "execution_timeout": timedelta(minutes=5),
            **kwargs,
        }
        super().__init__(**kwargs)
        self.command = list(command)
        self.selected = selected
        self.storekeeper_conn_id = storekeeper_conn_id

    def execute(self, context: Context) -> list[list[str]]:
        """The arguments by store."""
        updated = [asset.name for asset in (context.get("triggering_asset_events") or {}) if hasattr(asset, "name")]
        chosen = [store for store in EVERY_STORE if table_asset(store).name in updated] if updated else self._chosen()
        self.log.info("stores: %s", ", ".join(chosen) or "none, as no app has run here yet")
        return [[*self.command, store] for store in chosen]

    def _chosen(self) -> list[str]:
        """The stores that the run is for: "all" leaves out those whose apps have never run."""
        if self.selected != ALL_STORES:
            return [store for store in EVERY_STORE if store == self.selected]
        there = StorekeeperHook(self.storekeeper_conn_id).stores()
        return [store["store"] for store in there if store["has_run"]]
