"""Where a log begins and ends, asked of a real broker that answers and of one that doesn't."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from state.changelog.log_bounds import END, log_bounds, log_offsets, offset_client, told_offsets
from state.changelog.log_ends import KafkaLogEnds
from tests.broker import Broker, start_broker
from tests.integration import asking_loop
from tests.integration.topics import write_topic
from tests.standstill import standing_still

pytestmark = [pytest.mark.broker, pytest.mark.slow]

_ASKING_S = 60


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def test_a_broker_that_is_stopped_is_not_waited_for_and_its_silence_is_no_offset(own_broker: Broker) -> None:
    own_broker.create_topic("log", 1)
    write_topic(own_broker.bootstrap, "log", [(b"k", b"v")] * 3)
    ends = KafkaLogEnds(own_broker.bootstrap)
    with closing(offset_client(own_broker.bootstrap)) as client:
        assert log_bounds(client, "log", 0, 30) == (0, 3)
        told = ends.ends([("log", 0), ("log", 1)])
        assert (told["log", 0].bounds, told["log", 1].topic_id) == ((3, 3), None)
        assert told["log", 0].topic_id
        with standing_still(own_broker.pid):
            with pytest.raises(KafkaException) as caught:
                log_bounds(client, "log", 0, 1)
            assert ends.ends([("log", 0)]) == {}
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
        assert log_bounds(client, "log", 0, 30) == (0, 3)


def test_a_topic_that_is_not_there_keeps_no_other_from_being_told(own_broker: Broker) -> None:
    own_broker.create_topic("log", 1)
    wanted = {("log", 0): END, ("gone", 0): END}
    with closing(offset_client(own_broker.bootstrap)) as client:
        assert told_offsets(client, wanted, 30) == {("log", 0): 0}
        with pytest.raises(KafkaException) as caught:
            log_offsets(client, wanted, 30)
        assert caught.value.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)


@contextmanager
def hiccups(broker: Broker) -> Iterator[None]:
    """The broker stands still now and then, so that answers come when nobody waits any more."""
    rng, over = random.Random(1), threading.Event()

    def stumble() -> None:
        while not over.wait(rng.uniform(0, 0.3)):
            with standing_still(broker.pid):
                over.wait(rng.uniform(0, 0.15))

    thread = threading.Thread(target=stumble)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.long("asks some ten thousand times")
def test_answers_that_come_too_late_end_no_process(own_broker: Broker) -> None:
    topics = [f"log-{number}" for number in range(6)]
    for topic in topics:
        own_broker.create_topic(topic)
    command = [sys.executable, "-m", asking_loop.__name__, own_broker.bootstrap, ",".join(topics), str(_ASKING_S)]
    with hiccups(own_broker):
        asking = [
            subprocess.Popen([*command, str(timeout_s)], stdout=subprocess.PIPE)
            for timeout_s in (0.005, 0.02, 0.05, 0.1)
        ]
        told = [int(process.communicate()[0] or 0) for process in asking]
    assert [process.returncode for process in asking] == [0] * len(asking)
    assert min(told) > 0
