"""The five smaller systems as they really run: one driver, a broker, two nodes; killed once on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pytest

from deploy.demo.collect import read_topic
from deploy.demo.comparison import Difference
from deploy.demo.invoices import Record
from deploy.demo.systems.events import system_records
from deploy.demo.systems.oracle import Expected, compare_systems, expect, expected_players
from deploy.demo.systems.part import collect
from deploy.waiting import eventually
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker, start_broker
from harness.node_process import NodeProcess, make_nodes
from harness.sales import good_sales
from harness.topics import end_offsets, write_topic
from spark_apps.registry import ON_DEMAND_APPS, store_definitions
from spark_apps.runtime.heartbeat import AppState
from spark_apps.settings import AppSettings
from state.changelog.headers import source_ranges_of
from state.client import StateClient

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("test_running_platform.py has the same apps in one driver"),
]

SETTINGS = AppSettings()
SOURCES = sorted({topic for app in ON_DEMAND_APPS.values() for topic in app.sources(SETTINGS)})
CHANGELOGS = sorted({store.changelog_topic for app in ON_DEMAND_APPS.values() for store in app.stores})


@dataclass(frozen=True)
class Systems:
    """The systems after they have had everything."""

    broker: Broker
    apps: AppProcesses
    running: list[AppProcess]
    nodes: list[NodeProcess]
    expected: Expected

    def client(self, node: int = 0) -> StateClient:
        return StateClient(self.nodes[node].address)


def publish(broker: Broker, records: list[Record]) -> None:
    for topic in sorted({record.topic for record in records}):
        write_topic(broker.bootstrap, topic, [(r.key, r.value) for r in records if r.topic == topic])


def halved(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """The first and the second half of each topic."""
    first, second = [], []
    for topic in sorted({record.topic for record in records}):
        own = [record for record in records if record.topic == topic]
        first += own[: len(own) // 2]
        second += own[len(own) // 2 :]
    return first, second


def started(apps: AppProcesses) -> list[AppProcess]:
    process = apps._started("shared_driver", ["deploy.entry", "run", *ON_DEMAND_APPS], {})
    for app in ON_DEMAND_APPS:
        log = apps.run_dir / f"{app}.log"  # theirs is the process's
        log.unlink(missing_ok=True)
        log.symlink_to("shared_driver.log")
    return [AppProcess(app, process.process, apps.run_dir) for app in ON_DEMAND_APPS]


def await_all(running: list[AppProcess], broker: Broker) -> None:
    for process in running:
        ends: dict[str, dict[str, int]] = {}
        for topic in ON_DEMAND_APPS[process.app].sources(SETTINGS):
            ends |= end_offsets(broker.bootstrap, topic)
        process.await_caught_up(ends)


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systems]:
    folder = tmp_path_factory.mktemp("systems")
    broker = start_broker(folder / "broker")
    apps = AppProcesses(folder / "run", broker.bootstrap, {"trigger_interval_ms": "100"})
    served = store_definitions(ON_DEMAND_APPS.values())
    nodes = make_nodes(broker, folder / "nodes", served)
    try:
        for topic in sorted({topic for app in ON_DEMAND_APPS.values() for topic in app.topics(SETTINGS)}):
            compacted = {"cleanup.policy": "compact"} if topic in CHANGELOGS else None
            broker.create_topic(topic, config=compacted)
        records = system_records()
        sales = sorted(good_sales(200, seed=3), key=lambda sale: orjson.loads(sale[1])["CreatedTime"])
        records += [Record("pos", key, value) for key, value in sales[10:] + sales[:10]]
        halves = halved(records)
        publish(broker, halves[0])
        running = started(apps)
        for node in nodes:
            node.start()
        await_all(running, broker)
        kill(running)
        running = started(apps)
        publish(broker, halves[1])
        await_all(running, broker)
        for node in nodes:
            node.wait_ready()
        found = Systems(broker, apps, running, nodes, expect(lambda topic: read_topic(broker.kafka, topic)))
        await_equal(found)
        yield found
        if running[0].process.poll() is None:  # unless a test has ended it
            assert running[0].terminate() == 0, running[0].log_tail()
    finally:
        apps.stop()
        for node in nodes:
            node.close()
        broker.stop()


def await_equal(systems: Systems) -> None:
    """Returns once the nodes have applied everything; fails with what differs."""
    differences: list[Difference] = []

    def equal() -> bool:
        differences[:] = compare_systems(systems.expected, ask(systems))
        return not differences

    assert eventually(equal, 30), differences


def ask(systems: Systems) -> Expected:
    client = systems.client()
    try:
        return collect(client)
    finally:
        client.close()


def kill(running: list[AppProcess]) -> None:
    """Kills the process and its JVM, as a loss of power would."""
    beat = running[0].heartbeat
    assert beat is not None
    assert beat.jvm_pid is not None
    os.kill(beat.jvm_pid, signal.SIGKILL)
    running[0].process.kill()
    running[0].await_exit()


def test_every_store_holds_what_the_topics_add_up_to(systems: Systems) -> None:
    assert compare_systems(systems.expected, ask(systems)) == []
    expected = systems.expected
    assert len(expected.prices) == 5
    assert len(expected.players) == 50
    assert len(expected.sessions) > 100
    assert len(expected.sales) > 100


def test_the_board_is_ranked(systems: Systems) -> None:
    players = expected_players(read_topic(systems.broker.kafka, "game-results"))
    best = sorted(((row[0], player) for player, row in players.items()), key=lambda row: (-row[0], row[1]))
    client = systems.client(1)
    top = client.ranked("players").top(10).value
    assert [(row.score, row.key) for row in top] == best[:10]
    rank = client.ranked("players").rank(best[0][1]).value
    assert rank is not None
    assert (rank.rank, rank.of) == (1, len(players))
    client.close()


def test_a_users_sessions_and_those_of_a_moment(systems: Systems) -> None:
    user, _, end_ms = max(systems.expected.sessions, key=lambda session: session[2])
    client = systems.client()
    found = [(row.start_ms, row.end_ms) for row in client.session("user-sessions").find_sessions(user)]
    assert found == sorted((s, e) for u, s, e in systems.expected.sessions if u == user)
    active = {row.key for row in client.session("user-sessions").active(end_ms, 30 * 60_000)}
    assert active == {u for u, _, e in systems.expected.sessions if end_ms - e <= 30 * 60_000}
    client.close()


def test_both_nodes_answer_for_every_order_by_themselves(systems: Systems) -> None:
    for node in (0, 1):
        answer = systems.nodes[node].get("/state/keyvalues/order-locations/all?limit=1000")
        assert {row["key"] for row in answer.json()} == set(systems.expected.order_locations)
    order = next(iter(systems.expected.order_locations))
    for node in (0, 1):
        answer = systems.nodes[node].get(f"/state/keyvalue/order-locations/{order}")
        assert answer.headers["storekeeper-served-by"] == systems.nodes[node].name


def test_changelog_records_tell_whence_they_come(systems: Systems) -> None:
    for topic in CHANGELOGS:
        for record in read_topic(systems.broker.kafka, topic):
            assert record.headers["app"] in ON_DEMAND_APPS
            assert source_ranges_of([(name, value.encode()) for name, value in record.headers.items()])


def test_partitions_added_to_a_source_end_its_driver_before_a_record_is_processed(systems: Systems) -> None:
    broker, meeting = systems.broker, systems.running[1]
    app = ON_DEMAND_APPS[meeting.app]
    changelogs = [store.changelog_topic for store in app.stores]
    before = [end_offsets(broker.bootstrap, topic) for topic in changelogs]
    topic = app.sources(SETTINGS)[-1]
    broker.add_partitions(topic, 6)
    publish(broker, [record for record in system_records() if record.topic == topic])

    assert meeting.await_exit() == 78, meeting.log_tail()
    beat = meeting.heartbeat
    assert beat is not None
    assert beat.state is AppState.FAILED
    reason = f"topic {topic} has 6 partitions, but the state of {app.name} was made with 4"
    assert reason in (beat.error or "")
    others = [other.heartbeat for other in systems.running if other is not meeting]
    assert {other and other.state for other in others} == {AppState.STOPPED}
    again = systems.apps.run("run", app.name)
    assert again.returncode == 78, again.stderr[-3000:]
    assert reason in again.stderr
    assert [end_offsets(broker.bootstrap, topic) for topic in changelogs] == before
