from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.control.settings import OperationsSettings
from deploy.control.watch import WatchAction, WatchHistory, judge, sickest
from deploy.supervisor_rpc import ProcessInfo
from spark_apps.runtime.heartbeat import AppState, Heartbeat

NOW = 10_000_000
LIMITS = OperationsSettings.load(kafka_bootstrap="nowhere:1", run_dir=Path("/nowhere"))
PROCESS = ProcessInfo("pos", "RUNNING", 7, NOW - 1_000_000, 0)
BEAT = Heartbeat("pos", 1, 7, AppState.RUNNING, NOW - 990_000, NOW - 2_000, last_progress_ms=NOW - 5_000)
BEHIND = {"offsets": {"pos": {"0": 1}}, "latest_offsets": {"pos": {"0": 2}}}


@pytest.mark.parametrize(
    ("process", "beat", "action", "reason"),
    [
        ({}, {}, WatchAction.NONE, "running"),
        ({"state": "STOPPED"}, {}, WatchAction.NONE, "stopped"),
        (
            {"state": "STOPPED", "started_at_ms": 0},
            {},
            WatchAction.RESTART,
            "not started since the supervisor began",
        ),
        ({"state": "BACKOFF"}, {}, WatchAction.NONE, "the supervisor says BACKOFF"),
        ({}, {"state": AppState.STOPPING}, WatchAction.NONE, "the heartbeat says STOPPING"),
        ({}, {"updated_at_ms": NOW - 30_001}, WatchAction.RESTART, "the last heartbeat is 30 s old"),
        ({"state": "EXITED", "exit_status": 0}, {}, WatchAction.RESTART, "ended with exit code 0"),
        ({"state": "FATAL", "exit_status": 1}, {"error": "no"}, WatchAction.RESTART, "ended with exit code 1 (no)"),
        (
            {"state": "EXITED", "exit_status": 78},
            {"error": "no topic"},
            WatchAction.ALERT,
            "ended because of its configuration (no topic)",
        ),
        (
            {"pid": 8, "started_at_ms": NOW - 60_000},
            {"error": "lost"},
            WatchAction.NONE,
            "no heartbeat of process 8, started 60 s ago (the process before it: lost)",
        ),
        (
            {"pid": 8, "started_at_ms": NOW - 121_000},
            {},
            WatchAction.RESTART,
            "no heartbeat of process 8, started 121 s ago",
        ),
        (
            {"started_at_ms": NOW - 60_000},
            {"state": AppState.STARTING},
            WatchAction.NONE,
            "the heartbeat says STARTING",
        ),
        ({}, {"state": AppState.STARTING}, WatchAction.RESTART, "still starting after 1000 s"),
        ({}, {"last_progress_ms": NOW - 400_000}, WatchAction.NONE, "running"),
        (
            {},
            {"last_progress_ms": NOW - 400_000, **BEHIND},
            WatchAction.RESTART,
            "input waits, but no batch was committed for 400 s",
        ),
        ({}, {"last_progress_ms": NOW - 200_000, **BEHIND}, WatchAction.NONE, "running"),
    ],
)
def test_first_sight(process: dict[str, Any], beat: dict[str, Any], action: WatchAction, reason: str) -> None:
    found = judge(replace(PROCESS, **process), replace(BEAT, **beat), WatchHistory(), LIMITS, NOW)
    assert (found.action, found.reason) == (action, reason)


def test_of_several_apps_in_one_process_the_worst_one_counts() -> None:
    stale = replace(BEAT, app="ticks", updated_at_ms=NOW - 60_000)
    stopping = replace(BEAT, app="leaderboard", state=AppState.STOPPING)
    assert sickest(PROCESS, [BEAT, stopping], LIMITS, NOW) is stopping
    assert sickest(PROCESS, [stopping, stale, BEAT], LIMITS, NOW) is stale
    assert sickest(PROCESS, [BEAT, None], LIMITS, NOW) is None


def test_no_heartbeat_at_all_is_waited_for_and_then_a_reason_to_restart() -> None:
    young = replace(PROCESS, started_at_ms=NOW - 1_000)
    assert judge(young, None, WatchHistory(), LIMITS, NOW).action is WatchAction.NONE
    assert judge(PROCESS, None, WatchHistory(), LIMITS, NOW).action is WatchAction.RESTART


def test_restarts_back_off_and_end_in_an_alert() -> None:
    sick = replace(PROCESS, state="EXITED", exit_status=1)
    history, actions = WatchHistory(), []
    for minute in range(9):
        found = judge(sick, BEAT, history, LIMITS, NOW + minute * 60_000)
        history = found.history
        actions.append(found.action.value)
    # At once, after one more minute, after two more; then there were as many as allowed.
    assert actions == ["restart", "restart", "none", "restart", "alert", "alert", "alert", "alert", "alert"]
    assert "3 restarts did not help" in found.reason


def test_after_the_window_it_is_tried_again() -> None:
    sick = replace(PROCESS, state="EXITED", exit_status=1)
    history = WatchHistory(unhealthy_since_ms=NOW - 10, restarts_ms=(NOW - 1_800_000,) * 3)
    found = judge(sick, BEAT, history, LIMITS, NOW)
    assert found.action is WatchAction.RESTART
    assert found.history.restarts_ms == (NOW,)


def test_an_app_that_starts_over_and_over_is_reported_although_each_start_is_young() -> None:
    young = replace(PROCESS, pid=8, started_at_ms=NOW - 1_000)
    found = judge(young, BEAT, WatchHistory(unhealthy_since_ms=NOW - 300_000), LIMITS, NOW)
    assert found.action is WatchAction.ALERT
    assert found.reason.endswith("not healthy for 300 s")


def test_health_ends_the_illness_but_not_the_count_of_restarts_and_a_stop_ends_both() -> None:
    history = WatchHistory(unhealthy_since_ms=NOW - 300_000, restarts_ms=(NOW - 1_000,))
    assert judge(PROCESS, BEAT, history, LIMITS, NOW).history == WatchHistory(restarts_ms=(NOW - 1_000,))
    assert judge(replace(PROCESS, state="STOPPED"), BEAT, history, LIMITS, NOW).history == WatchHistory()
