"""The DAGs that look after stores, run whole: a task for each chosen store, a finding fails the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from harness.broker import Broker
from harness.node_process import COMPACTED, write
from tests.cleanup.test_commands import PARTITIONS, ROWS, TOPIC, snapshot
from tests.dags.conftest import RunDag
from tests.ops.control.toys import ControlProcess

pytestmark = [pytest.mark.airflow, pytest.mark.broker]


@pytest.fixture
def store(broker: Broker) -> Iterator[Broker]:
    """The broker with the changelog of `prices`."""
    with suppress(KafkaException):
        broker.delete_topic(TOPIC)  # other tests of the session leave it behind
    broker.create_topic(TOPIC, PARTITIONS, COMPACTED)
    write(broker, TOPIC, ROWS.items())
    yield broker
    broker.delete_topic(TOPIC)


def test_the_chosen_store_is_verified_and_a_difference_fails_the_run(
    run_dag: RunDag, control: ControlProcess, store: Broker, tmp_path: Path
) -> None:
    control.variables["STOREKEEPER_KAFKA_BOOTSTRAP"] = store.bootstrap
    run_dir = tmp_path / "run"
    snapshot(store, run_dir, ROWS)
    good = run_dag("verify_stores", {"store": "prices"})
    assert good.state == "success", good.log
    assert good.results["choose"] == [["verify", "prices"]]
    assert good.results["verify"]["details"]["compared"] == {"snapshot 0": PARTITIONS}
    assert good.tasks == {"choose": "success", "verify": "success"}

    snapshot(store, run_dir, {**ROWS, b"SYMBOL-OF-NONE": b"{}"})
    bad = run_dag("verify_stores", {"store": "prices"})
    assert bad.state == "failed"
    assert "copies differ: " in bad.log
    assert "surplus" in bad.log
    assert "SYMBOL-OF-NONE" not in bad.log
