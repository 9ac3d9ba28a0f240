"""The callback of a missed deadline, with the context that Airflow's scheduler gives it."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Context

from storekeeper_provider.dag_parts.runs import report_missed_deadline
from storekeeper_provider.notifications import WebhookNotifier

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
