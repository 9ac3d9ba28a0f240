"""Poison in all topics of the smaller apps, on Spark and a broker: it is in the dead letters, and the rest is right."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from harness.app_process import AppProcesses
from harness.broker import Broker, start_broker
from harness.project_apps import SYSTEM_APPS
from harness.topics import read_topic
from tests.faults.poison_runs import PoisonRun, ToTopic, bad_records, good_records, sources, strewn
from tests.integration.small_apps import await_all, create_topics, started

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("test_poison.py has the same records in one process, engine/test_bad_records.py others on Spark"),
]

OF_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


def written(broker: Broker, records: list[tuple[ToTopic, bool]]) -> Counter[tuple[str, int, int]]:
    """Writes records to their topics; gives the places of the bad ones."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    bad: list[tuple[str, int, int]] = []
    for (topic, (key, value, timestamp_ms)), is_good in records:

        def done(error: object, message: object, is_good: bool = is_good) -> None:
            assert error is None, error
            if not is_good:
                bad.append((message.topic(), message.partition(), message.offset()))  # type: ignore[attr-defined]

        producer.produce(topic, value=value, key=key, timestamp=timestamp_ms or 0, on_delivery=done)
    assert producer.flush(60) == 0
    return Counter(bad)


def letters(broker: Broker, app: str) -> Counter[tuple[str, int, int]]:
    """The places of an app's dead letters."""
    texts = (
        {name: (text or b"").decode() for name, text in record.headers.items()}
        for record in read_topic(broker.bootstrap, f"{app}-dlq")
    )
    return Counter((text["dlq.topic"], int(text["dlq.partition"]), int(text["dlq.offset"])) for text in texts)


@pytest.mark.timeout(900)
def test_the_smaller_apps_go_on_as_if_poison_had_never_come(tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "broker")
    apps = AppProcesses(tmp_path / "run", broker.bootstrap, {"max_dead_letter_share": "1"}, 600)
    rng = random.Random(1)
    try:
        topics = {topic for app in SYSTEM_APPS for topic in sources(app)}
        for topic in topics:
            broker.create_topic(topic, config=OF_ANY_TIME)
        create_topics(broker, besides=topics)
        bad: dict[str, Counter[tuple[str, int, int]]] = {}
        expected: dict[str, dict[str, dict[bytes, bytes]]] = {}
        for app, spec in SYSTEM_APPS.items():
            good = good_records(app)
            bad[app] = written(broker, strewn(rng, good, list(bad_records(app))))
            clean = PoisonRun(spec, rng, crashes=False)
            clean.give(good)
            expected[app] = clean.rows
        running = started(apps)
        await_all(running, broker)
        assert running[0].terminate() == 0, running[0].log_tail()
        for app, spec in SYSTEM_APPS.items():
            if spec.dead_letters:
                assert letters(broker, app) == bad[app], app
            for store in spec.stores:
                newest = {record.key: record.value for record in read_topic(broker.bootstrap, store.changelog_topic)}
                rows = {key: value for key, value in newest.items() if value is not None}
                assert rows == expected[app][store.name], store.name
    finally:
        apps.stop()
        broker.stop()
