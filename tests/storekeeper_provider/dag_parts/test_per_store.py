from __future__ import annotations

import datetime
from typing import cast

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Asset, Context
from airflow.sdk.definitions.deadline import DeadlineReference
from airflow.serialization.decoders import decode_deadline_reference
from airflow.serialization.encoders import encode_deadline_reference

from storekeeper_provider.dag_parts.approval import ApproveUnlessWaivedOperator, PauseOperator
from storekeeper_provider.dag_parts.choose import ChooseStoresByAppOperator, ChooseStoresOperator
from storekeeper_provider.dag_parts.runs import done_within, report_missed_deadline
from storekeeper_provider.hook import StorekeeperHook

pytestmark = pytest.mark.airflow


def chosen(selected: str, *updated: str) -> list[list[str]]:
    choose = ChooseStoresOperator(names=["rewards", "prices", "orders"], command=["verify"], selected=selected)
    events: dict[Asset, list[object]] = {Asset(f"delta_{store}"): [] for store in updated}
    return choose.execute(cast("Context", {"triggering_asset_events": events}))


def test_a_run_is_for_the_store_of_its_params_or_for_those_whose_apps_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [{"store": "prices", "has_run": True}, {"store": "orders", "has_run": False}]
    monkeypatch.setattr(StorekeeperHook, "stores", lambda _: there)
    assert chosen("orders") == [["verify", "orders"]]
    assert chosen("all") == [["verify", "prices"]]


def test_a_run_after_snapshots_is_for_their_stores_alone() -> None:
    assert chosen("all", "orders", "rewards", "somebody-elses") == [["verify", "rewards"], ["verify", "orders"]]


def test_the_stores_of_one_app_share_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [
        {"store": store, "app": app, "has_run": True}
        for store, app in {"orders": "places", "prices": "ticks", "order-times": "places"}.items()
    ]
    monkeypatch.setattr(StorekeeperHook, "stores", lambda _: there)
    choose = ChooseStoresByAppOperator(names=["orders", "prices"], command=["snapshot", "create"], selected="all")
    assert choose.execute(cast("Context", {})) == [
        ["snapshot", "create", "orders", "order-times"],
        ["snapshot", "create", "prices"],
    ]


@pytest.mark.parametrize(("needed", "asks"), [("True", True), ("False", False)])
def test_an_approval_is_asked_for_unless_the_params_waive_it(
    monkeypatch: pytest.MonkeyPatch, needed: str, asks: bool
) -> None:
    asked = []
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: asked.append(self.subject))
    ApproveUnlessWaivedOperator(task_id="approve", subject="Delete?", needed=needed).execute(cast("Context", {}))
    assert bool(asked) is asks


def test_no_time_is_no_pause() -> None:
    PauseOperator(task_id="pause", minutes="0").execute(cast("Context", {}))


def test_a_late_run_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    alert = done_within(datetime.timedelta(minutes=5))
    stored = encode_deadline_reference(alert.reference)
    assert stored["reference_type"] != type(DeadlineReference.DAGRUN_QUEUED_AT).__name__, "no task could be cleared"
    read = decode_deadline_reference(stored)  # as the scheduler does: of what plugins tell it alone
    assert (read.reference_name, read.inner_ref.required_kwargs) == ("RunQueuedAt", {"dag_id", "run_id"})
    report_missed_deadline({"dag_run": {"dag_id": "verify_stores", "dag_run_id": "r1"}})
    assert "run r1 of DAG verify_stores missed its deadline" in caplog.text
