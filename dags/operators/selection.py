"""Choosing the stores that a run is for. DAGs have a task for each store, behind one that chooses among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.branch import BaseBranchOperator

from dags.operators.settings import OperationsSettings
from dags.operators.tables import snapshots_of
from spark_apps.registry import store_named

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL_STORES = "all"


class ChooseStoresOperator(BaseBranchOperator):
    """Runs the tasks of the chosen stores, which are named after them, and skips the others.

    A run triggered by updated snapshots is for their stores. Any other run is for the store in its params; "all" means
    every store whose app has ever run in this run directory.

    Args:
        stores: the stores that there are tasks for.
        selected: the store that the run is for, or "all". Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected",)
    ui_color = "#e8e8e8"

    def __init__(self, *, stores: list[str], selected: str = "{{ params.store }}", **kwargs: Any) -> None:
        kwargs = {
            "task_id": "choose",
            "task_display_name": "Choose stores",
            "execution_timeout": timedelta(minutes=5),
            **kwargs,
        }
        super().__init__(**kwargs)
        self.stores = stores
        self.selected = selected

    def choose_branch(self, context: Context) -> list[str]:
        """The stores' names."""
        updated = [asset.name for asset in (context.get("triggering_asset_events") or {}) if hasattr(asset, "name")]
        if updated:
            return [store for store in self.stores if snapshots_of(store).name in updated]
        return chosen_stores(self.stores, self.selected)


def chosen_stores(stores: Iterable[str], selected: str) -> list[str]:
    """The stores that a run for `selected` is for: "all" leaves out those whose apps have never run."""
    if selected != ALL_STORES:
        return [store for store in stores if store == selected]
    settings = OperationsSettings()  # type: ignore[call-arg]
    return [store for store in stores if settings.checkpoint_dir(store_named(store).app).parent.exists()]
