"""The five smaller systems as they really run: one driver, a broker, two nodes; killed once on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from demo.collect import read_topic
from demo.systems.events import system_records
from demo.systems.oracle import Expected, compare_systems, expected_players
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker, start_broker
from harness.node_process import NodeProcess, make_nodes
from harness.project_apps import SYSTEM_APPS
from harness.topics import end_offsets
from storekeeper.apps.registry import store_definitions
from storekeeper.changelog.headers import source_ranges_of
from storekeeper.client.client import StateClient
from storekeeper.engine.runtime.heartbeat import AppState
from tests.integration.small_apps import (
    CHANGELOGS,
    SETTINGS,
    await_all,
    await_equal,
    create_topics,
    expected_of,
    halves,
    held,
    kill,
    publish,
    started,
)

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("test_running_platform.py has the same apps in one driver"),
]


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


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systems]:
    folder = tmp_path_factory.mktemp("systems")
    broker = start_broker(folder / "broker")
    apps = AppProcesses(folder / "run", broker.bootstrap, {"trigger_interval_ms": "100"})
    served = store_definitions(SYSTEM_APPS.values())
    nodes = make_nodes(broker, folder / "nodes", served)
    try:
        create_topics(broker)
        first, second = halves()
        publish(broker, first)
        running = started(apps)
        for node in nodes:
            node.start()
        await_all(running, broker)
        kill(running)
        running = started(apps)
        publish(broker, second)
        await_all(running, broker)
        for node in nodes:
            node.wait_ready()
        expected = expected_of(broker)
        await_equal(expected, nodes[0])
        yield Systems(broker, apps, running, nodes, expected)
        if running[0].process.poll() is None:  # unless a test has ended it
            assert running[0].terminate() == 0, running[0].log_tail()
    finally:
        apps.stop()
        for node in nodes:
            node.close()
        broker.stop()


def test_every_store_holds_what_the_topics_add_up_to(systems: Systems) -> None:
    assert compare_systems(systems.expected, held(systems.nodes[0])) == []
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
            assert record.headers["app"] in SYSTEM_APPS
            assert source_ranges_of([(name, value.encode()) for name, value in record.headers.items()])


def test_partitions_added_to_a_source_end_an_app_and_no_other_before_a_record_is_processed(systems: Systems) -> None:
    broker, meeting = systems.broker, systems.running[1]
    app = SYSTEM_APPS[meeting.app]
    changelogs = [store.changelog_topic for store in app.stores]
    before = [end_offsets(broker.bootstrap, topic) for topic in changelogs]
    topic = app.sources(SETTINGS)[-1]
    broker.add_partitions(topic, 6)
    publish(broker, [record for record in system_records() if record.topic == topic])

    beat = meeting.await_beat(lambda beat: beat.state is AppState.FAILED, "failed")
    assert beat.exit_code == 78
    reason = f"topic {topic} has 6 partitions, but the state of {app.name} was made with 4"
    assert reason in (beat.error or "")
    others = [other.heartbeat for other in systems.running if other is not meeting]
    assert {other and other.state for other in others} == {AppState.RUNNING}
    again = systems.apps.run("run", app.name)
    assert again.returncode == 78, again.stderr[-3000:]
    assert reason in again.stderr
    assert [end_offsets(broker.bootstrap, topic) for topic in changelogs] == before
