"""The smaller apps in one driver: their topics and their input, their processes, and what their stores must hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

import orjson

from demo.collect import read_topic
from demo.comparison import Difference
from demo.invoices import Record
from demo.systems.events import system_records
from demo.systems.oracle import Expected, compare_systems, expect
from demo.systems.part import collect
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker
from harness.node_process import NodeProcess
from harness.project_apps import SYSTEM_APPS
from harness.sales import good_sales
from harness.topics import end_offsets, write_topic
from storekeeper.apps.settings import AppSettings
from storekeeper.client.client import StateClient
from storekeeper.ops.waiting import eventually

SETTINGS = AppSettings()
CHANGELOGS = sorted({store.changelog_topic for app in SYSTEM_APPS.values() for store in app.stores})


def create_topics(broker: Broker, *, besides: Iterable[str] = ()) -> None:
    """Makes all topics of the apps, besides those that are there already."""
    for topic in sorted({topic for app in SYSTEM_APPS.values() for topic in app.topics(SETTINGS)} - {*besides}):
        broker.create_topic(topic, config={"cleanup.policy": "compact"} if topic in CHANGELOGS else None)


def halves() -> tuple[list[Record], list[Record]]:
    """The first and the second half of each topic's records. Some sales come late."""
    sales = sorted(good_sales(200, seed=3), key=lambda sale: orjson.loads(sale[1])["CreatedTime"])
    records = [*system_records(), *(Record("pos", key, value) for key, value in sales[10:] + sales[:10])]
    first, second = [], []
    for topic in sorted({record.topic for record in records}):
        own = [record for record in records if record.topic == topic]
        first += own[: len(own) // 2]
        second += own[len(own) // 2 :]
    return first, second


def publish(broker: Broker, records: list[Record]) -> None:
    """Writes records to their topics."""
    for topic in sorted({record.topic for record in records}):
        write_topic(broker.bootstrap, topic, [(r.key, r.value) for r in records if r.topic == topic])


def started(apps: AppProcesses, **settings: str) -> list[AppProcess]:
    """Starts the driver; its apps, which are one process."""
    process = apps._started("shared_driver", ["storekeeper.cli.entry", "run", *SYSTEM_APPS], settings)
    for app in SYSTEM_APPS:
        log = apps.run_dir / f"{app}.log"  # theirs is the process's
        log.unlink(missing_ok=True)
        log.symlink_to("shared_driver.log")
    return [AppProcess(app, process.process, apps.run_dir, apps.patience_s) for app in SYSTEM_APPS]


def await_all(running: list[AppProcess], broker: Broker) -> None:
    """Waits until each app has committed all of its input."""
    for process in running:
        ends: dict[str, dict[str, int]] = {}
        for topic in SYSTEM_APPS[process.app].sources(SETTINGS):
            ends |= end_offsets(broker.bootstrap, topic)
        process.await_caught_up(ends)


def kill(running: list[AppProcess]) -> None:
    """Kills the process and its JVM, as a loss of power would."""
    beat = running[0].heartbeat
    assert beat is not None
    assert beat.jvm_pid is not None
    os.kill(beat.jvm_pid, signal.SIGKILL)
    running[0].process.kill()
    running[0].await_exit()


def expected_of(broker: Broker) -> Expected:
    """What the stores must hold, by all that was put into the topics."""
    return expect(lambda topic: read_topic(broker.kafka, topic))


def held(node: NodeProcess) -> Expected:
    """What the stores hold, as a node answers."""
    client = StateClient(node.address)
    try:
        return collect(client)
    finally:
        client.close()


def await_equal(expected: Expected, node: NodeProcess) -> None:
    """Returns once a node has applied everything; fails with what differs."""
    differences: list[Difference] = []

    def equal() -> bool:
        differences[:] = compare_systems(expected, held(node))
        return not differences

    assert eventually(equal, 30), differences
