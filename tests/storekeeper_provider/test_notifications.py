from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import Context

from storekeeper_provider.notifications import WebhookNotifier, notifier, notify_all

pytestmark = pytest.mark.airflow
CONTEXT = cast("Context", {"ti": SimpleNamespace(dag_id="verify_stores", run_id="r1", task_id="verify")})


def test_a_webhook_is_told_which_task_it_is() -> None:
    got: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if len(got) == 1 else 403)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        webhook = WebhookNotifier(url=f"http://127.0.0.1:{server.server_port}/secret", text="copies differ")
        webhook.notify(CONTEXT)
        with pytest.raises(RuntimeError, match="the webhook answers with status 403") as caught:
            webhook.notify(CONTEXT)
        server.shutdown()
        thread.join()
    assert got[0] == {"text": "copies differ", "dag_id": "verify_stores", "run_id": "r1", "task_id": "verify"}
    assert "secret" not in str(caught.value)
    with pytest.raises(RuntimeError, match="doesn't answer"):
        webhook.notify(CONTEXT)


def test_any_notifier_is_made_by_its_name() -> None:
    made = notifier({"class": "storekeeper_provider.notifications.WebhookNotifier", "url": "http://127.0.0.1:9"})
    assert isinstance(made, WebhookNotifier)
    assert made.url == "http://127.0.0.1:9"
    for wrong in ({}, {"class": "nowhere.Notifier"}, {"class": "storekeeper_provider.notifications.WebhookNotifier"}):
        with pytest.raises(ValueError, match="no notifier can be made of"):
            notifier(wrong)


def test_the_variable_names_who_is_told_and_one_that_fails_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notified: list[str] = []
    monkeypatch.setattr(WebhookNotifier, "notify", lambda self, _: notified.append(self.text))
    webhook = {"class": "storekeeper_provider.notifications.WebhookNotifier", "url": "https://x/secret"}
    wrong = {"class": "nowhere.Notifier", "token": "skt_x"}
    named = [wrong, "skt_x", {**webhook, "text": "one"}, {**webhook, "text": "two"}]
    monkeypatch.setenv("AIRFLOW_VAR_STOREKEEPER_NOTIFIERS", json.dumps(named))
    notify_all(CONTEXT)
    assert notified == ["one", "two"]
    assert "nowhere.Notifier did not notify" in caplog.text
    assert "skt_x" not in caplog.text


@pytest.mark.parametrize("value", [None, "no JSON", '{"class": "x"}', '["x"]', "null", "1"])
def test_without_a_variable_that_can_be_read_nobody_is_told(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    notified: list[str] = []
    monkeypatch.setattr(WebhookNotifier, "notify", lambda self, _: notified.append(self.text))
    if value is not None:
        monkeypatch.setenv("AIRFLOW_VAR_STOREKEEPER_NOTIFIERS", value)
    notify_all(CONTEXT)
    assert notified == []
