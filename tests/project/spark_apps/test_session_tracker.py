from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from spark_apps import session_tracker
from spark_apps.session_tracker import SESSION_TRACKER, topology
from state.user_sessions import USER_SESSIONS
from storekeeper.testkit.fixtures import MakeDriver
from storekeeper.topology import CrashStep, TopologyTestDriver
from tests.apps.events import HOUR_MS, MINUTE_MS, Sent, past, untidy
from tests.project.spark_apps.session_oracle import late_by_sql, sessions_by_sql
from tests.project.spark_apps.support import AppDriver, send, values

GAP, GRACE, RETENTION = 30 * MINUTE_MS, 10 * MINUTE_MS, 48 * HOUR_MS
T = past(10 * HOUR_MS)


def keep(monkeypatch: pytest.MonkeyPatch, retention_ms: int) -> None:
    kept = replace(USER_SESSIONS, retention=timedelta(milliseconds=retention_ms))
    monkeypatch.setattr(session_tracker, "USER_SESSIONS", kept)


@pytest.fixture(autouse=True)
def _retention(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "topology_driver" in request.fixturenames:
        return  # tasks run in processes of their own, with the constants as they are
    keep(monkeypatch, RETENTION)


def event(user: str, event_id: str, time_ms: int) -> dict[str, Any]:
    return {"EventID": event_id, "UserID": user, "EventTime": time_ms}


def act(driver: AppDriver, user: str, *times_ms: int) -> None:
    for time_ms in times_ms:
        driver.send("user-events", user, event(user, f"e{time_ms}", time_ms))
    driver.run()


def sessions(driver: TopologyTestDriver) -> dict[tuple[str, int, int], int]:
    return {key: row["EventCount"] for key, row in values(driver, "user-sessions").items()}


def day_of_events(seed: int, users: int = 6, count: int = 300) -> list[Sent]:
    chance = random.Random(seed)
    events = []
    for number in range(count):
        user, time_ms = f"u{chance.randrange(users)}", T - int(chance.random() * 20 * HOUR_MS)
        events.append((user, f"e{number}", time_ms, event(user, f"e{number}", time_ms)))
    return untidy(events, seed=seed)


@pytest.fixture
def driver() -> AppDriver:
    return AppDriver(topology)


def test_a_session_tells_its_user_start_end_and_events(driver: AppDriver) -> None:
    act(driver, "u", T, T + 5)
    assert driver.values("user-sessions") == {
        ("u", T, T + 5): {"UserID": "u", "SessionStart": T, "LastActivity": T + 5, "EventCount": 2}
    }


def test_a_gap_ends_a_session_and_its_last_millisecond_does_not(driver: AppDriver) -> None:
    act(driver, "u", T, T + GAP, T + 2 * GAP + 1)
    assert sessions(driver) == {("u", T, T + GAP): 2, ("u", T + 2 * GAP + 1, T + 2 * GAP + 1): 1}


def test_an_event_between_two_sessions_makes_them_one_and_leaves_tombstones(driver: AppDriver) -> None:
    act(driver, "u", T, T + GAP + 5)
    assert len(sessions(driver)) == 2
    act(driver, "u", T + 10)
    assert sessions(driver) == {("u", T, T + GAP + 5): 3}
    assert len(driver.raw("user-sessions")) == 1


def test_a_late_event_is_counted_and_dropped(driver: AppDriver) -> None:
    act(driver, "u", T, T - GAP - GRACE, T - GAP - GRACE - 1)
    assert ("u", T - GAP - GRACE, T - GAP - GRACE) in sessions(driver)
    assert driver.dropped.total == 1


def test_a_late_event_is_dropped_even_where_its_session_is_open(driver: AppDriver) -> None:
    act(driver, "u", *(T + at * GAP for at in range(4)))
    act(driver, "u", T)
    assert sessions(driver) == {("u", T, T + 3 * GAP): 4}
    assert driver.dropped.total == 1


def test_an_event_that_comes_twice_counts_once(driver: AppDriver) -> None:
    act(driver, "u", T, T)
    act(driver, "u", T)
    assert sessions(driver) == {("u", T, T): 1}
    assert driver.dropped.total == 0


def test_an_ended_session_stays_for_the_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    retention = 8 * HOUR_MS
    keep(monkeypatch, retention)
    driver = AppDriver(topology)
    act(driver, "u", T, T + retention - 1)
    assert ("u", T, T) in sessions(driver)
    act(driver, "u", T + retention)
    assert ("u", T, T) not in sessions(driver)


def test_events_are_forgotten_once_they_would_be_late() -> None:
    driver = AppDriver(topology, partitions=1)
    for number in range(50):
        act(driver, f"u{number}", T)
    assert len(driver.rows("seen-events")) == 50
    act(driver, "last", T + GAP + GRACE + 1)
    assert [key.key for key, _ in driver.rows("seen-events")] == ["last"]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("u", None, "the value is null"),
        ("other", event("u", "e", 5), "the key is not the UserID"),
        ("u", {"EventID": "e", "UserID": "u"}, "EventTime"),
        ("u", event("u", "e", past(0) + 25 * HOUR_MS), "ahead of the record's own"),
    ],
)
def test_what_is_no_event_becomes_a_dead_letter(driver: AppDriver, key: str, value: Any, reason: str) -> None:
    driver.send("user-events", key, value)
    driver.run()
    assert reason in driver.reasons()[0][1]
    assert sessions(driver) == {}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("batch", [1, 17, 1000])
def test_sessions_are_those_of_sql_however_batches_fall(driver: AppDriver, seed: int, batch: int) -> None:
    sent = day_of_events(seed)
    driver.send_in_batches("user-events", sent, batch)
    assert sessions(driver) == sessions_by_sql(sent, GAP, GRACE, RETENTION)
    assert driver.dropped.total == sum(late_by_sql(sent, GAP, GRACE).values()) != 0


@pytest.mark.parametrize("step", CrashStep)
def test_a_crash_changes_nothing(driver: AppDriver, step: CrashStep) -> None:
    sent = day_of_events(7, count=150)
    for record in sent[:80]:
        driver.send("user-events", record.key, record.value)
    driver.run()
    driver.crash_at(step, batches_before=1)
    for record in sent[80:]:
        driver.send("user-events", record.key, record.value)
    driver.run()
    assert sessions(driver) == sessions_by_sql(sent, GAP, GRACE, RETENTION)


def test_sessions_grow_together_in_plain_python_and_on_spark(topology_driver: MakeDriver) -> None:
    driver = topology_driver(SESSION_TRACKER)
    for times in ((T, T + GAP + 5), (T + 10,)):
        for user, time_ms in product(("u1", "u2", "u3"), times):
            send(driver, "user-events", user, event(user, f"e{time_ms}", time_ms))
        driver.run()
    assert sessions(driver) == {(user, T, T + GAP + 5): 3 for user in ("u1", "u2", "u3")}
