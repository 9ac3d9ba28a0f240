"""The operator that snapshots a store."""

from __future__ import annotations

from typing import Any

from dags.operators.spark_job import SparkJobOperator
from dags.operators.tables import snapshots_of


class SnapshotStoreOperator(SparkJobOperator):
    """Runs the snapshot job of `store` and updates its asset.

    Args:
        store: the store's name.
        **kwargs: those of every operator.
    """

    def __init__(self, *, store: str, **kwargs: Any) -> None:
        super().__init__(module="spark_apps", arguments=["snapshot", store], outlets=[snapshots_of(store)], **kwargs)
        self.store = store
