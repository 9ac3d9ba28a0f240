"""A clean-up that hangs inside its transaction hides what a task commits behind it; no restore is content with less."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog import committed_ends
from storekeeper.changelog.errors import OpenTransactionError
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.cleanup import conditional_write
from storekeeper.cleanup.conditional_write import KafkaTentativeLog
from storekeeper.engine.markers import MARKER_TOPIC_CONFIG, Marker, read_marker
from storekeeper.kafka.clients import new_producer
from storekeeper.topology import Store, StreamsBuilder
from tests.engine.task_runs import TaskRuns
from tests.engine.topologies import Totals
from tests.open_transactions import begun, ends_when_awaited

pytestmark = pytest.mark.broker

NOW_MS = int(time.time() * 1000)
_numbers = itertools.count()
_DIES = """
import os, sys
from storekeeper.kafka.connection import Kafka
from storekeeper.cleanup.conditional_write import KafkaTentativeLog
from storekeeper.changelog.log_record import LogRecord

tombstone = LogRecord(0, 1, b"expired", None, [("schema-version", b"1"), ("cleanup-action", b"delete")])
KafkaTentativeLog(Kafka(sys.argv[1]), sys.argv[2]).at(0, 0).append([tombstone])
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def app(broker: Broker, tmp_path: Path) -> TaskRuns:
    name = f"behind-{next(_numbers)}"
    topic = f"{name}-events"
    broker.create_topic(topic, 1)

    def described(streams: StreamsBuilder, _: AppSettings) -> None:
        streams.stream(topic, int).group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals))

    return TaskRuns(name, described, topic, broker, tmp_path / "run")


def totals(app: TaskRuns) -> dict[bytes, int]:
    return {key: orjson.loads(value)["total"] for key, value in app.rows().items()}


def test_a_task_that_lost_its_store_restores_what_is_committed_behind_it(
    app: TaskRuns, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.run(0, [(b"a", b"1", NOW_MS), (b"expired", b"7", NOW_MS)])
    # Another app's writer, or a task of this one that did not have to wait, commits behind it.
    hanging = begun(broker, app.changelog)
    writer = new_producer(broker.kafka, {"transactional.id": f"{app.changelog}-writer"})
    writer.init_transactions(30)
    writer.begin_transaction()
    headers = ChangelogHeaders(1, 1, 1, {}).encode()
    writer.produce(app.changelog, b'{"events":2,"total":11}', b"a", 0, headers=headers, timestamp=NOW_MS)
    writer.commit_transaction(30)
    shutil.rmtree(app.folder)
    ends_when_awaited(hanging, monkeypatch)
    app.run(1, [(b"a", b"100", NOW_MS)])
    assert totals(app) == {b"a": 111, b"expired": 7}


@pytest.mark.long("test_behind_a_cleanup.py ends the transaction itself in another test")
@pytest.mark.parametrize("loses_store", [True, False])
def test_a_cleanup_that_was_killed_costs_time_and_no_row(app: TaskRuns, broker: Broker, *, loses_store: bool) -> None:
    app.run(0, [(b"a", b"1", NOW_MS), (b"expired", b"7", NOW_MS)])
    died = subprocess.run([sys.executable, "-c", _DIES, broker.bootstrap, app.changelog], check=False)
    assert died.returncode == -9
    for batch_id, amount in enumerate((b"10", b"100", b"1000"), 1):
        if loses_store:
            shutil.rmtree(app.folder)
        app.run(batch_id, [(b"a", amount, NOW_MS)])
    assert totals(app) == {b"a": 1111, b"expired": 7}


def test_a_transaction_that_stays_open_is_told_by_its_place(
    app: TaskRuns, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.run(0, [(b"a", b"1", NOW_MS)])
    hanging = begun(broker, app.changelog)
    monkeypatch.setattr(committed_ends, "PATIENCE_S", 0)
    with pytest.raises(OpenTransactionError, match=f"is open in {app.changelog}-0 since offset 2 and hides"):
        app.run(1, [(b"a", b"10", NOW_MS)])
    hanging.abort()
    app.run(1, [(b"a", b"10", NOW_MS)])
    assert totals(app) == {b"a": 11}


def test_a_cleanup_takes_over_from_the_one_before_it(app: TaskRuns, broker: Broker) -> None:
    app.run(0, [(b"a", b"1", NOW_MS)])
    begun(broker, app.changelog)
    KafkaTentativeLog(broker.kafka, app.changelog).close()
    app.run(1, [(b"a", b"10", NOW_MS)])
    assert totals(app) == {b"a": 11}


def test_no_older_marker_is_taken_for_the_newest(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = "hidden-markers"
    broker.create_topic(topic, 1, MARKER_TOPIC_CONFIG)
    plain = new_producer(broker.kafka, {})
    plain.produce(topic, Marker(0, {}, {}, b"{}").encode(), b"q", 0)
    plain.flush(30)
    hanging = begun(broker, topic)
    plain.produce(topic, Marker(1, {}, {}, b"{}").encode(), b"q", 0)
    plain.flush(30)
    ends_when_awaited(hanging, monkeypatch)
    found = read_marker(broker.kafka, topic, 0, b"q")
    assert found is not None
    assert found.batch_id == 1


def test_a_cleanup_lets_go_before_a_task_gives_up() -> None:
    broker_looks_every_s = 10
    longest_s = conditional_write._TRANSACTION_TIMEOUT_MS / 1000 + broker_looks_every_s
    assert longest_s < committed_ends.PATIENCE_S
