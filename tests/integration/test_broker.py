"""The fixture itself: a broker that keeps its data over a kill. And the platform's, which keeps it on a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from harness.broker import JARS, Broker
from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.kafka.clients import answers, new_admin
from storekeeper.ops import paced_exec
from storekeeper.ops.broker import platform_broker, prepare_broker
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings
from tests.integration.small_disk import fill, small_disk

TOPICS = {f"topic-{number}" for number in range(8)}
"""With eight, Kafka's log of all topics has an entry in its index: only then does it take that for damaged."""


@pytest.mark.broker
def test_records_survive_a_killed_broker(broker: Broker) -> None:
    broker.create_topic("survivor", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("survivor", b"v", b"k")
    assert producer.flush(30) == 0

    broker.kill()
    assert not broker.running
    broker.start()

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t", "enable.auto.commit": False})
    consumer.assign([TopicPartition("survivor", 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.key(), message.value()) == (b"k", b"v")


@contextmanager
def begun(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.broker
def test_the_platforms_broker_ends_on_a_full_disk_and_keeps_its_topics(tmp_path: Path) -> None:
    kafka_port, _ = next(pair for pair in iter(lambda: free_ports(2), []) if pair[1] == pair[0] + 1)
    with small_disk(tmp_path) as disk:
        settings = PlatformSettings.load(run_dir=disk / "run", jars_dir=JARS.parent, kafka_port=kafka_port)
        layout = RunLayout(settings.run_dir)
        layout.make()
        environment = dict(os.environ)  # noqa: TID251
        prepare_broker(layout, settings, environment)
        command = [sys.executable, paced_exec.__file__, str(tmp_path / "start"), *platform_broker(layout, settings)]
        with begun(command, tmp_path / "first.log") as process:
            eventually(lambda: answers(settings.kafka), 90, "the broker answers")
            admin = new_admin(settings.kafka)
            for made in admin.create_topics([NewTopic(topic, 4, 1) for topic in TOPICS]).values():
                made.result(timeout=30)
            filler = fill(disk)
            producer = Producer({"bootstrap.servers": settings.kafka.bootstrap, "log_level": 0})

            def ended() -> bool:
                producer.produce("topic-0", b"v" * 100_000)
                producer.poll(0)
                return process.poll() is not None

            eventually(ended, 90, "the broker ends")
            producer.purge()
        with begun(command, tmp_path / "second.log") as process:
            eventually(lambda: "is full" in (tmp_path / "second.log").read_text(), 30, "it waits for room")
            filler.unlink()
            eventually(lambda: answers(settings.kafka), 90, "the broker answers again")
            eventually(
                lambda: {*new_admin(settings.kafka).list_topics(timeout=10).topics} >= TOPICS, 30, "no topic is lost"
            )
            assert process.poll() is None
