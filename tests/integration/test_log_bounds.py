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

from harness.broker import Broker, start_broker
from harness.sigstop_pause import sigstop_pause
from harness.topics import write_topic
from storekeeper.changelog.log_bounds import END, known_offsets, log_bounds, log_offsets, offset_client
from storekeeper.changelog.log_ends import LogEnds
from tests.integration import asking_loop

pytestmark = pytest.mark.broker

_ASKING_S = 60


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def test_a_broker_that_is_stopped_is_not_waited_for_and_its_silence_is_no_offset(broker: Broker) -> None:
    topic = "log-bounds-stopped"
    broker.create_topic(topic, 1)
    write_topic(broker.bootstrap, topic, [(b"k", b"v")] * 3)
    ends = LogEnds(broker.kafka)
    with closing(offset_client(broker.kafka)) as client:
        assert log_bounds(client, topic, 0, 30) == (0, 3)
        told = ends.ends([(topic, 0), (topic, 1)])
        assert (told[topic, 0].end, told[topic, 1].topic_id) == (3, None)
        assert told[topic, 0].topic_id
        with sigstop_pause(broker.pid):
            with pytest.raises(KafkaException) as caught:
                log_bounds(client, topic, 0, 1)
            assert ends.ends([(topic, 0)]) == {}
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
        assert log_bounds(client, topic, 0, 30) == (0, 3)


def test_a_topic_that_is_not_there_keeps_no_other_from_being_told(broker: Broker) -> None:
    topic = "log-bounds-alone"
    broker.create_topic(topic, 1)
    wanted = {(topic, 0): END, ("log-bounds-gone", 0): END}
    with closing(offset_client(broker.kafka)) as client:
        assert known_offsets(client, wanted, 30) == {(topic, 0): 0}
        with pytest.raises(KafkaException) as caught:
            log_offsets(client, wanted, 30)
        assert caught.value.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)


@contextmanager
def hiccups(broker: Broker) -> Iterator[None]:
    """The broker stands still now and then, so that answers come when nobody waits any more."""
    rng, over = random.Random(1), threading.Event()

    def stumble() -> None:
        while not over.wait(rng.uniform(0, 0.3)):
            with sigstop_pause(broker.pid):
                over.wait(rng.uniform(0, 0.15))

    thread = threading.Thread(target=stumble)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.long("storekeeper/changelog/test_log_bounds.py asks once")
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


@pytest.mark.parametrize("asked", [[2], [0, 2]], ids=["alone", "beside a known one"])
def test_partitions_that_were_added_meanwhile_are_known_too(broker: Broker, asked: list[int]) -> None:
    topic = f"bounds-{len(asked)}-grown"
    broker.create_topic(topic, 2)
    with closing(offset_client(broker.kafka)) as client:
        assert log_offsets(client, {(topic, partition): END for partition in (0, 1)}, 30)
        broker.add_partitions(topic, 3)
        wanted = {(topic, partition): END for partition in asked}
        assert log_offsets(client, wanted, 30) == dict.fromkeys(wanted, 0)
        assert known_offsets(client, wanted, 30) == dict.fromkeys(wanted, 0)
