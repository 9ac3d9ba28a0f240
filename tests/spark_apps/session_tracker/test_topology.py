from __future__ import annotations

import random
from typing import Any

import pytest

from spark_apps.session_tracker.spec import SESSION_TRACKER
from spark_apps.settings import AppSettings
from spark_apps.testkit import Crash, TopologyDriver, plain_driver
from spark_apps.testkit.fixtures import MakeDriver
from tests.spark_apps.events import HOUR_MS, MINUTE_MS, Sent, past, untidy
from tests.spark_apps.session_tracker.oracle import late_by_sql, sessions_by_sql

GAP, GRACE, RETENTION = 30 * MINUTE_MS, 10 * MINUTE_MS, 8 * HOUR_MS
SETTINGS = {"session_gap_ms": GAP, "session_grace_ms": GRACE, "session_retention_ms": RETENTION}
T = past(10 * HOUR_MS)


def event(user: str, event_id: str, time_ms: int) -> dict[str, Any]:
    return {"EventID": event_id, "UserID": user, "EventTime": time_ms}


def pipe(driver: TopologyDriver, user: str, *times_ms: int) -> None:
    for time_ms in times_ms:
        driver.pipe("user-events", user, event(user, f"e{time_ms}", time_ms))


def sessions(driver: TopologyDriver) -> dict[tuple[str, int, int], int]:
    return {key: value["EventCount"] for key, value in driver.store("user-sessions").all().items()}


def late(driver: TopologyDriver) -> dict[str, int]:
    return {key: value["LateRecords"] for key, value in driver.store("session_tracker-late").all().items()}


def day_of_events(seed: int, users: int = 6, count: int = 300) -> list[Sent]:
    chance = random.Random(seed)
    events = []
    for number in range(count):
        user, time_ms = f"u{chance.randrange(users)}", T - int(chance.random() * 20 * HOUR_MS)
        events.append((user, f"e{number}", time_ms, event(user, f"e{number}", time_ms)))
    return untidy(events, seed=seed)


@pytest.fixture
def driver() -> TopologyDriver:
    return plain_driver(SESSION_TRACKER, AppSettings(**SETTINGS))  # type: ignore[arg-type]


def test_a_session_tells_its_user_start_end_and_events(driver: TopologyDriver) -> None:
    pipe(driver, "u", T, T + 5)
    driver.run()
    assert driver.store("user-sessions").all() == {
        ("u", T, T + 5): {"UserID": "u", "SessionStart": T, "LastActivity": T + 5, "EventCount": 2}
    }


def test_a_gap_ends_a_session_and_its_last_millisecond_does_not(driver: TopologyDriver) -> None:
    pipe(driver, "u", T, T + GAP, T + 2 * GAP + 1)
    driver.run()
    assert sessions(driver) == {("u", T, T + GAP): 2, ("u", T + 2 * GAP + 1, T + 2 * GAP + 1): 1}


def test_an_event_between_two_sessions_makes_them_one_and_leaves_tombstones(driver: TopologyDriver) -> None:
    pipe(driver, "u", T, T + GAP + 5)
    driver.run()
    assert len(sessions(driver)) == 2
    pipe(driver, "u", T + 10)
    driver.run()
    assert sessions(driver) == {("u", T, T + GAP + 5): 3}
    changes = driver.output("session_tracker-user-sessions-changelog")
    assert [record.value is None for record in changes] == [False, False, True, True, False]


def test_a_session_lies_in_the_partition_of_its_user(driver: TopologyDriver) -> None:
    for number in range(20):
        pipe(driver, f"user-{number}", T)
    driver.run()
    from state.changelog.partitioner import partition_for
    from state.keys.sessions import decode_session_row_key

    for record in driver.output("session_tracker-user-sessions-changelog"):
        assert record.key is not None
        assert record.partition == partition_for(decode_session_row_key(record.key)[0], 4)


def test_a_late_event_is_counted_and_dropped(driver: TopologyDriver) -> None:
    pipe(driver, "u", T, T - GAP - GRACE, T - GAP - GRACE - 1)
    driver.run()
    assert ("u", T - GAP - GRACE, T - GAP - GRACE) in sessions(driver)
    assert sum(late(driver).values()) == 1


def test_an_event_that_comes_twice_counts_once(driver: TopologyDriver) -> None:
    pipe(driver, "u", T, T)
    driver.run()
    pipe(driver, "u", T)
    driver.run()
    assert sessions(driver) == {("u", T, T): 1}


def test_an_ended_session_stays_for_the_retention(driver: TopologyDriver) -> None:
    pipe(driver, "u", T, T + RETENTION - MINUTE_MS)
    driver.run()
    assert ("u", T, T) in sessions(driver)
    pipe(driver, "u", T + RETENTION + MINUTE_MS)
    driver.run()
    assert ("u", T, T) not in sessions(driver)


def test_nothing_is_remembered_of_users_whose_sessions_are_over() -> None:
    driver = plain_driver(SESSION_TRACKER, AppSettings(**SETTINGS))  # type: ignore[arg-type]
    for number in range(50):
        driver.pipe("user-events", f"u{number}", event(f"u{number}", "e", T), partition=0)
    driver.pipe("user-events", "last", event("last", "e", T + 20 * HOUR_MS), partition=0)
    driver.run()
    assert len(driver._states[0].rows) <= 4  # the last user, the timer and the task's progress


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("u", None, "the value is null"),
        ("other", event("u", "e", 5), "the key is not the UserID"),
        ("u", {"EventID": "e", "UserID": "u"}, "EventTime"),
        ("u", event("u", "e", past(0) + 25 * HOUR_MS), "ahead of the record's own"),
    ],
)
def test_what_is_no_event_becomes_a_dead_letter(driver: TopologyDriver, key: str, value: Any, reason: str) -> None:
    driver.pipe("user-events", key, value)
    driver.run()
    [letter] = driver.output("user-events-dlq")
    assert reason in dict(letter.headers)["dlq.error.message"].decode()
    assert sessions(driver) == {}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch", [1, 17, 1000])
def test_sessions_are_those_of_sql_however_batches_fall(driver: TopologyDriver, seed: int, batch: int) -> None:
    sent = day_of_events(seed)
    for number, record in enumerate(sent):
        driver.pipe("user-events", record.key, record.value)
        if number % batch == batch - 1:
            driver.run()
    driver.run()
    assert sessions(driver) == sessions_by_sql(sent, GAP, GRACE, RETENTION)
    assert late(driver) == late_by_sql(sent, GAP, GRACE)
    assert late(driver), "the events must hold late ones"


def through_a_crash(driver: TopologyDriver, sent: list[Sent], step: str) -> None:
    for record in sent[:80]:
        driver.pipe("user-events", record.key, record.value)
    driver.run()
    for record in sent[80:]:
        driver.pipe("user-events", record.key, record.value)
    driver.run(Crash.after(step))
    driver.run()


def check_day(driver: TopologyDriver, step: str) -> None:
    sent = day_of_events(7, count=150)
    through_a_crash(driver, sent, step)
    assert sessions(driver) == sessions_by_sql(sent, GAP, GRACE, RETENTION)
    assert late(driver) == late_by_sql(sent, GAP, GRACE)


def test_a_crash_changes_nothing_on_either_engine(topology_driver: MakeDriver) -> None:
    check_day(topology_driver(SESSION_TRACKER, **SETTINGS), "sink write")


@pytest.mark.parametrize("step", ["plan", "state write", "commit"])
def test_every_crash_changes_nothing_on_either_engine(thorough_driver: MakeDriver, step: str) -> None:
    check_day(thorough_driver(SESSION_TRACKER, **SETTINGS), step)
