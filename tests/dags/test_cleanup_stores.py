from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException

from harness.broker import Broker
from storekeeper.clock import DAY_MS, SystemClock
from tests.dags.conftest import RunDag
from tests.integration.test_cleanup_under_writes import COMPACTED, content, fill
from tests.ops.control.toys import ControlProcess

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
def test_old_rows_are_previewed_deleted_and_brought_back(
    run_dag: RunDag, control: ControlProcess, broker: Broker
) -> None:
    control.variables["STOREKEEPER_KAFKA_BOOTSTRAP"] = broker.bootstrap
    fill(broker, TOPIC, range(100), b"old", 100)
    fill(broker, TOPIC, range(100, 300), b"young", 1)
    conf = {"store": "prices", "ttl_days": 30, "approval": False, "canary_share": 0.2, "canary_wait_minutes": 0.01}
    run = run_dag("cleanup_stores", conf)
    assert run.state == "success", run.log
    plan, report = run.results["preview"], run.results["delete"]
    assert (plan["rows"], plan["expired_rows"]) == (300, 100)
    assert plan["cutoff_ms"] <= SystemClock().now_ms() - 30 * DAY_MS
    assert 0 < run.results["canary"]["deleted"] < 100
    assert (report["deleted"], report["holds"], report["untouched"]) == (100, True, 0)
    assert set(content(broker, TOPIC).values()) == {b"young"}

    undo = {"store": "prices", "cleanup_id": plan["cleanup_id"]}
    back = run_dag("undo_cleanup", undo)
    assert back.results["undo"]["restored"] == 100
    assert len(content(broker, TOPIC)) == 300
