"""What a transaction writes, on a real broker."""

from __future__ import annotations

import pytest

from spark_apps.engine.markers import MARKER_TOPIC_CONFIG
from spark_apps.engine.transaction import Slot, Transaction, WriterPlan, producer_options
from spark_apps.settings import AppSettings
from state.changelog.stretch import read_topic
from tests.broker import Broker

pytestmark = pytest.mark.broker


def test_a_record_of_1970_keeps_its_time(broker: Broker) -> None:
    broker.create_topic("times-out", 1)
    broker.create_topic("times-markers", 1, MARKER_TOPIC_CONFIG)
    options = producer_options(AppSettings())
    plan = WriterPlan(broker.bootstrap, "times", {}, {}, refused_to=None, producer=options, timeout_s=30)
    transaction = Transaction(plan, Slot("times-0", "times-markers", 0, b"q"), batch_id=0)
    transaction.write(("times-out", b"k", b"v", timestamp_ms, ()) for timestamp_ms in (5, 1, 0))
    transaction.commit(3, b"{}")
    # To Kafka's C client 0 means now: a millisecond later is nearer the truth.
    assert [message.timestamp()[1] for message in read_topic(broker.bootstrap, "times-out")] == [5, 1, 1]
