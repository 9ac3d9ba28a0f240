"""Where a log begins and ends, asked of a real broker that answers and of one that doesn't."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from state.changelog.log_bounds import log_bounds
from state.changelog.log_ends import KafkaLogEnds
from tests.broker import Broker, start_broker
from tests.integration.topics import write_topic

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def test_a_broker_that_is_stopped_is_not_waited_for_and_its_silence_is_no_offset(own_broker: Broker) -> None:
    own_broker.create_topic("log", 1)
    write_topic(own_broker.bootstrap, "log", [(b"k", b"v")] * 3)
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap, "log_level": 0})
    ends = KafkaLogEnds(own_broker.bootstrap)
    assert log_bounds(admin, "log", 0, 30) == (0, 3)
    assert ends.ends([("log", 0)]) == {("log", 0): (3, 3)}
    os.kill(own_broker.pid, signal.SIGSTOP)
    try:
        with pytest.raises(KafkaException) as caught:
            log_bounds(admin, "log", 0, 1)
        assert ends.ends([("log", 0)]) == {}
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    assert log_bounds(admin, "log", 0, 30) == (0, 3)
