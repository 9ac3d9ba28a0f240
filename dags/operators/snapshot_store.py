"""The operator that snapshots a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dags.operators.selection import ALL_STORES, check_selected
from dags.operators.spark_job import SparkJobOperator
from dags.operators.tables import snapshots_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class SnapshotStoreOperator(SparkJobOperator):
    """Runs the snapshot job of `store` and updates its asset; is skipped if the run isn't for it.

    Args:
        store: the store's name.
        selected: the store that the run is for, or "all". Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected",)

    def __init__(self, *, store: str, selected: str = ALL_STORES, **kwargs: Any) -> None:
        super().__init__(module="spark_apps", arguments=["snapshot", store], outlets=[snapshots_of(store)], **kwargs)
        self.store = store
        self.selected = selected

    def execute(self, context: Context) -> dict[str, Any]:
        """Runs the job.

        Raises:
            AirflowSkipException: the run is for another store, or the store's app has never run here.
        """
        check_selected(self.store, self.selected)
        return super().execute(context)
