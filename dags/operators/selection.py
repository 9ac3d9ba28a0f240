"""Whether a run has something to do for a store: DAGs have a task for each."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowSkipException

from dags.operators.settings import OperationsSettings
from spark_apps.registry import store_named

ALL_STORES = "all"


def check_selected(store: str, selected: str) -> None:
    """Returns if a run for `selected`, a store or "all", has something to do for `store`.

    Raises:
        AirflowSkipException: it hasn't.
    """
    if selected not in {ALL_STORES, store}:
        msg = f"this run is for {selected}"
        raise AirflowSkipException(msg)
    app = store_named(store).app
    if selected == ALL_STORES and not OperationsSettings().checkpoint_dir(app).parent.exists():  # type: ignore[call-arg]
        msg = f"app {app} has never run here"
        raise AirflowSkipException(msg)
