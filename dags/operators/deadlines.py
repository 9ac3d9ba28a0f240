"""What happens when a run isn't done in time: a deadline alert, for runs that hang as well as for runs that wait."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)


def done_within(interval: timedelta) -> DeadlineAlert:
    """The alert of a DAG whose runs are to be done so long after they were queued."""
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=interval, callback=SyncCallback(report_missed_deadline)
    )


def report_missed_deadline(context: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Says in the scheduler's log which run is late. Add a notifier here to be told elsewhere."""
    run = (context or {}).get("dag_run") or {}
    named = run if isinstance(run, dict) else {"dag_id": run.dag_id, "run_id": run.run_id}
    log.error("run %s of DAG %s missed its deadline", named.get("run_id"), named.get("dag_id"))
