"""When DAGs run by the clock."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import CronTriggerTimetable


def at(cron: str) -> CronTriggerTimetable:
    """Runs at the times of `cron`, in UTC, and never for a time before the DAG was there.

    By itself, Airflow runs a new DAG at once if less than a tenth of its interval has passed since the last such time.
    A platform that has just come up would take a snapshot of each store while its apps still start.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta())
