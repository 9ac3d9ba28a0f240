from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import Context
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import TimeRestriction

from storekeeper_provider.dag_parts.runs import at, report_missed_deadline
from storekeeper_provider.notifications import WebhookNotifier
from tests.architecture.test_tree import ROOT


def test_a_dag_that_is_new_waits_for_its_next_time() -> None:
    now = datetime.now(UTC)
    just_missed = now - timedelta(minutes=2)
    timetable = coerce_to_core_timetable(at(f"{just_missed.minute} * * * *"))
    found = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
    )
    assert found is not None
    assert now < found.run_after <= now + timedelta(hours=1)
    assert found.run_after.minute == just_missed.minute


def test_every_dag_that_runs_seldom_has_such_a_schedule() -> None:
    crons = [
        (path.stem, line)
        for path in (ROOT / "storekeeper_provider" / "dags").glob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r' \* \* \*"', line)
    ]
    assert len(crons) == 4
    assert [name for name, line in crons if not re.search(r'\bat\(f?"', line)] == []


pytestmark = pytest.mark.airflow


def test_notifiers_get_the_late_run_as_they_get_a_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notified: list[tuple[str, str, str]] = []

    def notify(notifier: WebhookNotifier, context: Context) -> None:
        notified.append((notifier.text, context["ti"].dag_id, context["ti"].run_id))

    monkeypatch.setattr(WebhookNotifier, "notify", notify)
    named = [{"class": "storekeeper_provider.notifications.WebhookNotifier", "url": "https://x/secret"}]
    monkeypatch.setenv("AIRFLOW_VAR_STOREKEEPER_NOTIFIERS", json.dumps(named))
    deadline = {"id": "1", "deadline_time": "2026-01-31T00:00:00Z"}
    run = {"dag_id": "verify_stores", "dag_run_id": "manual__1", "state": "running"}
    report_missed_deadline(context={"dag_run": run, "deadline": deadline})
    assert notified == [("verify_stores: manual__1 needs attention", "verify_stores", "manual__1")]
    assert "run manual__1 of DAG verify_stores missed its deadline" in caplog.text
