from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.project_apps import SYSTEM_APPS, TILL_APPS
from harness.waiting import eventually
from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.apps.settings import AppSettings
from storekeeper.cli import app as app_commands
from storekeeper.clock import ManualClock, SystemClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.steps import planned, retired, started
from storekeeper.locations import RemoteFolder, unreachable
from storekeeper.ops.control.process_supervisor import supervisor_of, watched_programs
from storekeeper.ops.control.watch import (
    AppWatcher,
    WatchAction,
    Watched,
    WatchHistory,
    decide,
    read_history,
    worst_health,
    write_history,
)
from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.operations_settings import OperationsSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo, SupervisorRpc
from tests.ops.control.supervised import Supervised

SILENT_MS = 3_000
QUICK = {"watch_stale_s": 2, "start_timeout_s": 10}


def check(supervised: Supervised, **settings: object) -> Watched:
    """What `storekeeper app watch` does."""
    made = OperationsSettings(run_dir=supervised.run_dir, **settings)  # type: ignore[arg-type]
    supervisor = supervisor_of(made)
    programs = watched_programs(supervisor.names(), made)
    return AppWatcher(supervisor, made, SystemClock()).check(programs)


def await_silence(supervised: Supervised, app: str) -> None:
    """Returns once the process of an app that runs has said nothing for longer than it may."""

    def silent() -> bool:
        beat, process = read_heartbeat(supervised.run_dir / "heartbeats" / f"{app}.json"), supervised.rpc.process(app)
        return beat is not None and beat.pid == process.pid and beat.age_ms(SystemClock().now_ms()) > SILENT_MS

    eventually(silent, 30, f"{app} is silent")


def test_healthy_and_stopped_apps_are_left_alone_and_a_silent_one_is_restarted_then_reported(
    supervised: Supervised,
) -> None:
    supervised.behave("pos", "silent")
    for app in (*TILL_APPS, "shared_driver"):
        supervised.rpc.start(app)
        supervised.await_state(app, "RUNNING")
    supervised.rpc.stop("hadoop_export")
    supervised.await_state("hadoop_export", "STOPPED")
    before = {app: supervised.rpc.process(app).pid for app in TILL_APPS}
    await_silence(supervised, "pos")
    found = check(supervised, **QUICK)
    assert found.alerts == []
    looked = found.actions
    assert [looked[app]["action"] for app in TILL_APPS] == ["restart", "none"]
    assert looked["hadoop_export"]["reason"] == "stopped"
    assert looked["shared_driver"] == {"action": "none", "reason": "running"}
    after = {app: supervised.rpc.process(app).pid for app in TILL_APPS}
    assert after["pos"] not in {0, before["pos"]}
    assert after == {**before, "pos": after["pos"]}
    await_silence(supervised, "pos")
    (alert,) = check(supervised, watch_restarts=1, **QUICK).alerts
    assert "pos needs attention: the last heartbeat is" in alert
    assert "1 restarts did not help" in alert
    assert "toy pos is in the mood to silent" in alert
    assert supervised.rpc.process("pos").pid == after["pos"]


def test_an_app_that_ended_by_itself_is_started_and_a_misconfigured_one_reported(
    supervised: Supervised,
) -> None:
    supervised.behave("hadoop_export", "crash")
    supervised.behave("pos", "misconfigured")
    for app in ("hadoop_export", "pos"):
        supervised.rpc.start(app)
        supervised.await_state(app, "EXITED")
    supervised.behave("hadoop_export", "run")
    (alert,) = check(supervised).alerts
    assert "pos needs attention: ended because of its configuration (topic pos is missing: create it)" in alert
    assert supervised.rpc.process("hadoop_export").state == "RUNNING"
    assert supervised.rpc.process("pos").state == "EXITED"


def test_the_smaller_apps_and_a_generation_beside_the_live_one_are_looked_after_too(
    supervised: Supervised,
) -> None:
    journal = planned(first_journal(POS), POS, ())
    JournalFile(supervised.run_dir, "pos").write(started(journal, 2))
    supervised.behave("shared_driver", "crash")
    supervised.rpc.start("shared_driver")
    supervised.await_state("shared_driver", "EXITED")
    supervised.behave("shared_driver", "run")
    found = check(supervised)
    assert found.alerts == []
    looked = found.actions
    assert looked["shared_driver"]["reason"].startswith("ended with exit code 3")
    # Nobody has started them since the supervisor began.
    assert looked["pos-next"] == {"action": "restart", "reason": "not started since the supervisor began"}
    for program in (*TILL_APPS, "pos-next", "shared_driver"):
        supervised.await_state(program, "RUNNING")


def test_what_must_run_is_told_by_the_supervisor_and_the_journals(tmp_path: Path) -> None:
    settings = AppSettings.load(run_dir=tmp_path)
    assert list(watched_programs((*TILL_APPS, "shared_driver"), settings)) == [*TILL_APPS, "shared_driver"]
    assert list(watched_programs(("pos",), settings)) == ["pos"], "a platform that runs one app alone"
    assert watched_programs(("shared_driver",), settings)["shared_driver"] == tuple(SYSTEM_APPS)
    JournalFile(tmp_path, "ticks").write(started(planned(first_journal(TICKS), TICKS, ()), 2))
    assert watched_programs(("shared_driver",), settings)["ticks-next"] == ("ticks-next",)
    file, journal = JournalFile(tmp_path, "pos"), planned(first_journal(POS), POS, ())
    file.write(journal)
    assert "pos-next" not in watched_programs(TILL_APPS, settings), "it has no seed yet"
    file.write(started(journal, 2))
    assert watched_programs(TILL_APPS, settings)["pos-next"] == ("pos-next",)
    file.write(retired(started(journal, 2), 2))
    assert "pos-next" not in watched_programs((), settings)
    file.write(started(journal, 2))
    fixed = AppSettings.load(run_dir=tmp_path, generation=3)
    assert list(watched_programs(TILL_APPS, fixed)) == list(TILL_APPS), "what is left of a change doesn't run"


def test_apps_are_watched_while_no_journal_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: JournalFile) -> None:
        raise unreachable(RemoteFolder("s3://shop/durable"), "nobody listens")

    monkeypatch.setattr(JournalFile, "read", away)
    assert list(watched_programs(TILL_APPS, AppSettings.load(durable_uri="s3://shop/durable"))) == list(TILL_APPS)


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
            {"pid": 8, "started_at_ms": NOW - 181_000},
            {},
            WatchAction.RESTART,
            "no heartbeat of process 8, started 181 s ago",
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
    found = decide(replace(PROCESS, **process), replace(BEAT, **beat), WatchHistory(), LIMITS, NOW)
    assert (found.action, found.reason) == (action, reason)


def test_of_several_apps_in_one_process_the_worst_one_counts() -> None:
    stale = replace(BEAT, app="ticks", updated_at_ms=NOW - 60_000)
    stopping = replace(BEAT, app="leaderboard", state=AppState.STOPPING)
    assert worst_health(PROCESS, [BEAT, stopping], LIMITS, NOW) is stopping
    assert worst_health(PROCESS, [stopping, stale, BEAT], LIMITS, NOW) is stale
    assert worst_health(PROCESS, [BEAT, None], LIMITS, NOW) is None


def test_no_heartbeat_at_all_is_waited_for_and_then_a_reason_to_restart() -> None:
    young = replace(PROCESS, started_at_ms=NOW - 1_000)
    assert decide(young, None, WatchHistory(), LIMITS, NOW).action is WatchAction.NONE
    assert decide(PROCESS, None, WatchHistory(), LIMITS, NOW).action is WatchAction.RESTART


def test_restarts_back_off_and_end_in_an_alert() -> None:
    sick = replace(PROCESS, state="EXITED", exit_status=1)
    history, actions = WatchHistory(), []
    for minute in range(9):
        found = decide(sick, BEAT, history, LIMITS, NOW + minute * 60_000)
        history = found.history
        actions.append(found.action.value)
    # At once, after one more minute, after two more; then there were as many as allowed.
    assert actions == ["restart", "restart", "none", "restart", "alert", "alert", "alert", "alert", "alert"]
    assert "3 restarts did not help" in found.reason


def test_after_the_window_it_is_tried_again() -> None:
    sick = replace(PROCESS, state="EXITED", exit_status=1)
    history = WatchHistory(unhealthy_since_ms=NOW - 10, restarts_ms=(NOW - 1_800_000,) * 3)
    found = decide(sick, BEAT, history, LIMITS, NOW)
    assert found.action is WatchAction.RESTART
    assert found.history.restarts_ms == (NOW,)


def test_an_app_that_starts_over_and_over_is_reported_although_each_start_is_young() -> None:
    young = replace(PROCESS, pid=8, started_at_ms=NOW - 1_000)
    found = decide(young, BEAT, WatchHistory(unhealthy_since_ms=NOW - 300_000), LIMITS, NOW)
    assert found.action is WatchAction.ALERT
    assert found.reason.endswith("not healthy for 300 s")


def test_health_ends_the_illness_but_not_the_count_of_restarts_and_a_stop_ends_both() -> None:
    history = WatchHistory(unhealthy_since_ms=NOW - 300_000, restarts_ms=(NOW - 1_000,))
    assert decide(PROCESS, BEAT, history, LIMITS, NOW).history == WatchHistory(restarts_ms=(NOW - 1_000,))
    stopped = replace(PROCESS, state="STOPPED", started_at_ms=NOW)
    assert decide(stopped, BEAT, history, LIMITS, NOW).history == WatchHistory()


STOPPED = replace(PROCESS, state="STOPPED", started_at_ms=NOW - 600_000)


def test_an_app_that_a_restart_has_stopped_and_not_started_is_sick() -> None:
    history, actions = WatchHistory(restarts_ms=(NOW - 60_000,)), []
    for minute in range(5):
        found = decide(STOPPED, BEAT, history, LIMITS, NOW + minute * 60_000)
        history = found.history
        actions.append(found.action.value)
    assert actions == ["restart", "none", "restart", "alert", "alert"]
    assert found.reason == "stopped by a restart that did not finish; 3 restarts did not help"


@pytest.mark.parametrize("after_s", [0, 1])
def test_an_app_that_was_started_since_its_last_restart_was_stopped_on_purpose(after_s: int) -> None:
    second_ms = NOW // 1000 * 1000
    history = WatchHistory(restarts_ms=(second_ms + 999,))
    found = decide(replace(STOPPED, started_at_ms=second_ms + after_s * 1000), BEAT, history, LIMITS, NOW)
    assert (found.action, found.reason) == (WatchAction.NONE, "stopped")


class Busy(SupervisorRpc):
    """A supervisor of one silent app, which doesn't answer while it is to start it."""

    def __init__(self) -> None:
        super().__init__("http://nowhere", "", "", timeout_s=1)
        self.info = replace(PROCESS, state="RUNNING", started_at_ms=NOW - 600_000)
        self.is_busy = True

    def names(self) -> list[str]:
        return ["pos"]

    def process(self, name: str) -> ProcessInfo:
        assert name == "pos"
        return self.info

    def stop(self, name: str) -> bool:
        assert name == "pos"
        self.info = replace(self.info, state="STOPPED")
        return True

    def start(self, name: str) -> bool:
        if self.is_busy:
            msg = f"the supervisor doesn't start {name}"
            raise SupervisorUnreachableError(msg)
        self.info = replace(self.info, state="RUNNING", started_at_ms=NOW + 60_000)
        return True


def test_a_restart_that_only_stopped_the_app_is_finished_by_the_next_look(tmp_path: Path) -> None:
    supervisor, clock = Busy(), ManualClock(NOW)
    watcher = AppWatcher(supervisor, OperationsSettings.load(run_dir=tmp_path), clock)
    (alert,) = watcher.check({"pos": ["pos"]}).alerts
    assert "pos could not be restarted (no heartbeat of process 7" in alert
    supervisor.is_busy = False
    clock.advance(60_000)
    found = watcher.check({"pos": ["pos"]})
    assert found.actions["pos"] == {"action": "restart", "reason": "stopped by a restart that did not finish"}
    assert (found.alerts, supervisor.info.state) == ([], "RUNNING")


def test_an_app_that_somebody_stops_after_a_restart_that_failed_stays_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, clock = Busy(), ManualClock(NOW)
    watcher = AppWatcher(supervisor, OperationsSettings.load(run_dir=tmp_path), clock)
    assert watcher.check({"pos": ["pos"]}).alerts
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(app_commands, "supervisor_of", lambda _: supervisor)
    monkeypatch.setattr(app_commands, "begin_job", lambda **_: None)
    app_commands.stop("pos")
    clock.advance(60_000)
    assert watcher.check({"pos": ["pos"]}).actions["pos"] == {"action": "none", "reason": "stopped"}


def test_what_was_written_is_remembered(tmp_path: Path) -> None:
    history = WatchHistory(unhealthy_since_ms=5, restarts_ms=(1, 2))
    write_history(tmp_path / "watch" / "pos.json", history)
    assert read_history(tmp_path / "watch" / "pos.json") == history


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"unhealthy_since_ms": null, "restarts_ms": 3}'])
def test_a_damaged_memory_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "pos.json").write_text(content)
    assert read_history(tmp_path / "pos.json") == WatchHistory()
    assert read_history(tmp_path / "absent.json") == WatchHistory()
