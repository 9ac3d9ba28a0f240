"""The operator that does something to one store, in DAGs that have a task for each store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from dags.operators.maintenance import MaintenanceOperator
from dags.operators.selection import check_selected
from dags.operators.tables import snapshots_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class StoreTaskOperator(MaintenanceOperator):
    """A maintenance command on `store`; skipped if the run isn't for it, or its app has never run here.

    A run that updated snapshots have triggered is for their stores alone; any other one for those of the params.

    Args:
        store: the store's name.
        selected: the store that the run is for, or "all". Templated.
        **kwargs: those of every maintenance operator.
    """

    template_fields: Sequence[str] = ("arguments", "selected")

    def __init__(self, *, store: str, selected: str = "{{ params.store }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store = store
        self.selected = selected

    def execute(self, context: Context) -> dict[str, Any]:
        """Runs the command.

        Raises:
            AirflowSkipException: the run is for other stores.
        """
        updated = {asset.name for asset in (context.get("triggering_asset_events") or {}) if hasattr(asset, "name")}
        if updated and snapshots_of(self.store).name not in updated:
            msg = "this run is for the stores whose snapshots were updated"
            raise AirflowSkipException(msg)
        check_selected(self.store, self.selected)
        return super().execute(context)
