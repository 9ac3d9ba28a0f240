"""Tasks find what they have committed, whatever is added to their topology."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described
from storekeeper.topology import Store, StreamsBuilder
from storekeeper.topology.slots import assigned
from tests.engine.task_runs import TaskRuns
from tests.engine.topologies import Totals

pytestmark = pytest.mark.broker

EVENTS, NAMES = "slots-events", "slots-a-topic-that-sorts-earlier"


def counted(streams: StreamsBuilder, _: AppSettings) -> None:
    events = streams.stream(EVENTS, int)
    events.group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals))


def counted_and_joined(streams: StreamsBuilder, settings: AppSettings) -> None:
    counted(streams, settings)
    names = streams.table(NAMES, str, store="names")
    streams.stream(EVENTS, int).join(names, lambda number, name: f"{number} {name}", values=str).to("slots-joined")


def test_a_batch_that_was_committed_is_not_applied_again_by_tasks_that_read_more(
    broker: Broker, tmp_path: Path
) -> None:
    for topic in (EVENTS, NAMES, "slots-joined"):
        broker.create_topic(topic, 1)
    first = assigned(described("slots", counted, AppSettings()), {})
    run = TaskRuns("slots", counted, EVENTS, broker, tmp_path, slots=first)
    run.run(0, [(b"a", b"1", 1_000)])
    run.run(1, [(b"a", b"10", 2_000)])
    slots = assigned(described("slots", counted_and_joined, AppSettings()), first)
    more = TaskRuns("slots", counted_and_joined, EVENTS, broker, tmp_path, slots=slots)
    assert more.folder == run.folder
    more.run(1, [(b"a", b"10", 2_000)])
    more.run(2, [(b"a", b"100", 3_000)])
    assert {key: orjson.loads(value)["total"] for key, value in more.rows().items()} == {b"a": 111}
