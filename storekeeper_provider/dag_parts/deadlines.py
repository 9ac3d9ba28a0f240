"""What happens when a run isn't done in time: a deadline alert, for runs that hang as well as for runs that wait."""

from __future__ import annotations

import logging
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import DAG
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert

from storekeeper_provider.notifications import notify_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow.sdk import Context
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)


class RunQueuedAt(BaseDeadlineReference):
    """When a run was queued. Our plugin registers it with Airflow.

    Airflow's own `DAGRUN_QUEUED_AT` is not for runs whose tasks may be cleared: from 3.3.0 on that fails with status
    500 for as long as the run's deadline is stored (apache/airflow#70368).
    """

    required_kwargs = frozenset({"dag_id", "run_id"})

    def _evaluate_with(self, *, session: Session, dag_id: str, run_id: str) -> datetime | None:
        from airflow.models import DagRun  # noqa: PLC0415 (only the scheduler and the API server evaluate deadlines)
        from sqlalchemy import select  # noqa: PLC0415

        return session.scalar(select(DagRun.queued_at).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


def done_within(interval: timedelta) -> DeadlineAlert:
    """The alert for runs that aren't done within `interval` after they were queued."""
    return DeadlineAlert(reference=RunQueuedAt(), interval=interval, callback=SyncCallback(report_missed_deadline))


def report_missed_deadline(context: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Logs in the scheduler's log which run is late, and notifies everybody whom the variable names."""
    run = (context or {}).get("dag_run") or {}
    dag_id, run_id = run.get("dag_id"), run.get("dag_run_id")
    log.error("run %s of DAG %s missed its deadline", run_id, dag_id)
    # Airflow gives the run alone, as its REST API shows it. Notifiers know what tasks give them.
    named = {
        "dag": DAG(str(dag_id)),  # templates are rendered by it
        "run_id": run_id,
        "ti": SimpleNamespace(dag_id=dag_id, run_id=run_id, task_id=None),
    }
    notify_all(cast("Context", {**(context or {}), **named}))
