from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException

from spark_apps.registry import store_named
from state.clock import SystemClock
from state.maintenance.expiry import DAY_MS
from tests.broker import Broker
from tests.dags.conftest import DAGS, RunDag
from tests.integration.test_cleanup_under_writes import COMPACTED, content, fill

pytestmark = [pytest.mark.airflow, pytest.mark.broker]

TOPIC = "ticks-prices-changelog"


@pytest.fixture
def changelog(broker: Broker) -> Iterator[str]:
    """The changelog of `prices`."""
    with suppress(KafkaException):
        broker.delete_topic(TOPIC)  # other tests of the session leave it behind
    broker.create_topic(TOPIC, 4, COMPACTED)
    yield TOPIC
    broker.delete_topic(TOPIC)


@pytest.mark.usefixtures("changelog")
def test_old_rows_are_previewed_deleted_and_brought_back(run_dag: RunDag, broker: Broker) -> None:
    fill(broker, TOPIC, range(100), b"old", 100)
    fill(broker, TOPIC, range(100, 300), b"young", 1)
    conf = {"store": "prices", "ttl_days": 30, "approval": False, "canary_share": 0.2, "canary_wait_minutes": 0.01}
    run = run_dag("cleanup_stores", conf, STOREKEEPER_KAFKA_BOOTSTRAP=broker.bootstrap)
    assert run.state == "success", run.log
    plan, report = run.results["preview"], run.results["delete"]
    assert (plan["rows"], plan["expired_rows"]) == (300, 100)
    assert plan["cutoff_ms"] <= SystemClock().now_ms() - 30 * DAY_MS
    assert 0 < run.results["canary"]["deleted"] < 100
    assert (report["deleted"], report["holds"], report["untouched"]) == (100, True, 0)
    assert set(content(broker, TOPIC).values()) == {b"young"}
    assert (run.tasks["purge"], run.triggered) == ("skipped", {})

    undo = {"store": "prices", "cleanup_id": plan["cleanup_id"]}
    back = run_dag("undo_cleanup", undo, STOREKEEPER_KAFKA_BOOTSTRAP=broker.bootstrap)
    assert back.results["undo"]["restored"] == 100
    assert len(content(broker, TOPIC)) == 300


def test_an_app_that_is_to_forget_what_was_deleted_gets_a_new_generation(run_dag: RunDag, broker: Broker) -> None:
    topic = store_named("rewards").changelog_topic
    with suppress(KafkaException):
        broker.delete_topic(topic)
    broker.create_topic(topic, 4, COMPACTED)
    fill(broker, topic, range(20), b"old", 100)
    conf = {"store": "rewards", "ttl_days": 30, "approval": False, "canary_share": 0, "canary_wait_minutes": 0}
    # What is to be triggered must be known, so all DAGs are.
    settings = {"STOREKEEPER_KAFKA_BOOTSTRAP": broker.bootstrap, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS)}
    run = run_dag("cleanup_stores", {**conf, "purge_compute_state": True}, **settings)
    assert run.state == "success", run.log
    assert run.results["delete"]["deleted"] == 20
    assert run.triggered == {"migrate_state": {"app": "pos", "copy": True, "approval": False}}
    broker.delete_topic(topic)


def test_a_store_whose_app_goes_on_from_totals_is_refused(run_dag: RunDag) -> None:
    run = run_dag("cleanup_stores", {"store": "rewards", "approval": False})
    assert run.state == "failed"
    assert "goes on from its old total" in run.log
    assert run.tasks["delete"] == "upstream_failed"
