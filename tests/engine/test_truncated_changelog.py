"""A changelog whose first records were deleted by hand: no task restores the rest and counts on from there."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import orjson
import pytest

from harness.broker import Broker
from storekeeper.apps.errors import LostChangelogError
from storekeeper.apps.settings import AppSettings
from storekeeper.topology import Store, StreamsBuilder
from tests.engine.task_runs import TaskRuns
from tests.engine.topologies import Totals

pytestmark = pytest.mark.broker

EVENTS = "truncated-events"
NOW_MS = int(time.time() * 1000)


def counted(streams: StreamsBuilder, _: AppSettings) -> None:
    events = streams.stream(EVENTS, int)
    events.group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals))


def test_what_is_left_of_a_changelog_is_no_state(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic(EVENTS, 1)
    app = TaskRuns("truncated", counted, EVENTS, broker, tmp_path)
    app.run(0, [(b"a", b"1", NOW_MS), (b"b", b"5", NOW_MS)])
    broker.delete_records(app.changelog, 0, 1)
    app.run(1, [(b"b", b"10", NOW_MS)])  # its local store has all rows
    shutil.rmtree(app.folder)
    with pytest.raises(LostChangelogError, match=f"{app.changelog} begins at 1 .* Start a new generation"):
        app.run(2, [(b"a", b"100", NOW_MS)])
    assert {key: orjson.loads(value)["total"] for key, value in app.rows().items()} == {b"b": 15}


def test_a_task_that_has_lost_all_knows_from_its_marker_that_its_changelog_has_too(
    broker: Broker, tmp_path: Path
) -> None:
    topic = f"{EVENTS}-emptied"
    broker.create_topic(topic, 1)
    app = TaskRuns("emptied", lambda streams, _: sums_of(streams, topic), topic, broker, tmp_path)
    for batch in range(2):
        app.run(batch, [(b"a", b"1", NOW_MS)])
    shutil.rmtree(app.folder)
    broker.delete_topic(app.changelog)
    anew = TaskRuns("emptied", lambda streams, _: sums_of(streams, topic), topic, broker, tmp_path)
    with pytest.raises(LostChangelogError, match=f"{app.changelog} ends at 0 .* the task's marker has it at 3"):
        anew.run(2, [(b"a", b"100", NOW_MS)])
    assert anew.rows() == {}


def sums_of(streams: StreamsBuilder, topic: str) -> None:
    streams.stream(topic, int).group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals))
