from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat, write_heartbeat
from storekeeper.ops.control.app_control import AppControl, AppFailedError, AppTimeoutError, Patience
from storekeeper.ops.supervisor_rpc import ProcessInfo, SupervisorRpc

PATIENCE = Patience(start_s=10, stop_s=5)
STARTED_MS = 1_000_000


class FakeSupervisor(SupervisorRpc):
    """One process whose state the test sets; counts what was asked."""

    def __init__(self, state: str, pid: int = 1) -> None:
        self.state = state
        self.app_pid = pid
        self.exit_status = 78
        self.asked: list[str] = []
        self.on_start: Callable[[], None] = lambda: None
        self.on_stop: Callable[[], None] = lambda: None

    def process(self, name: str) -> ProcessInfo:
        assert name == "pos"
        return ProcessInfo("pos", self.state, self.app_pid, STARTED_MS, self.exit_status)

    def start(self, name: str) -> bool:
        self.asked.append("start")
        runs = self.state in {"STARTING", "RUNNING", "BACKOFF"}
        self.on_start()
        return not runs

    def stop(self, name: str) -> bool:
        self.asked.append("stop")
        ran = self.state == "RUNNING"
        self.on_stop()
        return ran

    def log_end(self, name: str) -> str:
        return "the last words"


class Bench:
    """A control on a fake supervisor; time passes only while it waits, and `during_waits` happens then."""

    def __init__(self, folder: Path, supervisor: FakeSupervisor) -> None:
        self.supervisor = supervisor
        self.clock = ManualClock(STARTED_MS)
        self.file = folder / "pos.json"
        self.during_waits: Callable[[], None] = lambda: None
        self.control = AppControl(
            "pos",
            supervisor=supervisor,
            heartbeat=lambda: read_heartbeat(self.file),
            stopped=folder / "stopped" / "pos",
            patience=PATIENCE,
            clock=self.clock,
            pause=self._pause,
        )

    def beat(self, state: AppState, pid: int = 1, error: str | None = None, **more: Any) -> None:
        now_ms = self.clock.now_ms()
        write_heartbeat(self.file, Heartbeat("pos", 1, pid, state, STARTED_MS, now_ms, error=error, **more))

    def _pause(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))
        self.during_waits()


def test_started_means_that_the_new_process_says_it_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("STOPPED", pid=2))
    bench.beat(AppState.RUNNING, pid=1)  # of the process before
    bench.supervisor.on_start = lambda: setattr(bench.supervisor, "state", "RUNNING")
    waits: list[int] = []

    def during_waits() -> None:
        waits.append(1)
        bench.beat(AppState.STARTING if len(waits) < 3 else AppState.RUNNING, pid=2)

    bench.during_waits = during_waits
    assert bench.control.start() is True
    assert len(waits) == 3


def test_only_a_stop_is_kept_and_any_start_ends_it(tmp_path: Path) -> None:
    """So `up` starts an app that a restart which was killed has stopped, and leaves alone what a person has stopped."""
    bench, stopped = Bench(tmp_path, FakeSupervisor("RUNNING")), tmp_path / "stopped" / "pos"
    supervisor = bench.supervisor
    supervisor.on_stop = lambda: setattr(supervisor, "state", "STOPPED")

    def start() -> None:
        supervisor.state = "RUNNING"
        bench.beat(AppState.RUNNING, last_progress_ms=1, offsets={"pos": {"0": 1}})

    supervisor.on_start = start
    for begin in (bench.control.start, bench.control.restart, bench.control.upgrade):
        bench.control.stop()
        assert stopped.exists()
        begin()
        assert not stopped.exists()
    bench.control.drain()
    assert supervisor.state == "STOPPED"
    assert not stopped.exists()


def test_an_app_that_ends_while_starting_is_reported_with_its_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("STOPPED"))

    def fail() -> None:
        bench.supervisor.state = "EXITED"
        bench.beat(AppState.FAILED, error="no topic pos")

    bench.supervisor.on_start = fail
    with pytest.raises(AppFailedError, match=r"exit code 78.*FAILED: no topic pos.*\n.*the last words") as caught:
        bench.control.start()
    assert "STOPPED" not in str(caught.value)


def test_an_app_that_never_says_it_runs_times_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    with pytest.raises(AppTimeoutError, match=r"doesn't run after 10 s.*left no heartbeat"):
        bench.control.start()
    assert bench.clock.now_ms() == STARTED_MS + 10_000


def test_a_start_waits_for_the_end_of_a_stop(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("STOPPING"))
    bench.during_waits = lambda: setattr(bench.supervisor, "state", "STOPPED")

    def start() -> None:
        assert bench.supervisor.state == "STOPPED"
        bench.supervisor.state = "RUNNING"
        bench.beat(AppState.RUNNING)

    bench.supervisor.on_start = start
    assert bench.control.start() is True


def test_an_app_goes_on_when_it_has_got_on_from_where_it_was_drained(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    drained = {"pos": {"0": 10, "1": 5}}
    bench.beat(AppState.STARTING)
    assert not bench.control.has_gone_on(drained)
    bench.beat(AppState.RUNNING)
    assert not bench.control.has_gone_on(drained), "it doesn't say yet where it is"
    bench.beat(AppState.RUNNING, offsets=drained)
    assert not bench.control.has_gone_on(drained), "it runs, but has done nothing yet"
    bench.beat(AppState.RUNNING, offsets={"pos": {"0": 12, "1": 5}}, last_progress_ms=STARTED_MS)
    assert bench.control.has_gone_on(drained)


@pytest.mark.parametrize("offsets", [{"pos": {"0": 9, "1": 5}}, {"pos": {"0": 10}}, {"other": {"0": 99, "1": 99}}])
def test_an_app_that_goes_on_elsewhere_is_a_failure(tmp_path: Path, offsets: dict[str, dict[str, int]]) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    bench.beat(AppState.RUNNING, offsets=offsets, last_progress_ms=STARTED_MS)
    with pytest.raises(AppFailedError, match="was drained at offset"):
        bench.control.has_gone_on({"pos": {"0": 10, "1": 5}})


def test_a_stop_is_over_when_the_process_is_gone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    bench.supervisor.on_stop = lambda: setattr(bench.supervisor, "state", "STOPPING")
    with pytest.raises(AppTimeoutError, match=r"didn't end within 5 s.*The supervisor says STOPPING"):
        bench.control.stop()
    bench.during_waits = lambda: setattr(bench.supervisor, "state", "STOPPED")
    assert bench.control.stop() is False


def test_ensure_leaves_a_running_app_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    bench.beat(AppState.RUNNING)
    assert bench.control.start() is False
    assert bench.supervisor.asked == []


def test_ensure_restarts_an_app_that_fell_silent_long_after_its_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    bench.beat(AppState.RUNNING)
    bench.clock.advance(31_000)
    bench.supervisor.on_stop = lambda: setattr(bench.supervisor, "state", "STOPPED")

    def start() -> None:
        bench.supervisor.state = "RUNNING"
        bench.beat(AppState.RUNNING)

    bench.supervisor.on_start = start
    assert bench.control.start() is True
    assert bench.supervisor.asked == ["stop", "start"]


def test_ensure_waits_for_an_app_that_is_starting_anyway(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    bench.during_waits = lambda: bench.beat(AppState.RUNNING)
    assert bench.control.start() is False
    assert bench.supervisor.asked == ["start"]


def test_an_app_that_the_supervisor_starts_again_is_waited_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("STOPPED"))
    bench.supervisor.exit_status = 75
    bench.supervisor.on_start = lambda: setattr(bench.supervisor, "state", "EXITED")

    def respawn() -> None:
        bench.supervisor.state = "RUNNING"
        bench.beat(AppState.RUNNING)

    bench.during_waits = respawn
    assert bench.control.start() is True


def test_an_app_that_crashes_while_it_is_stopped_does_not_come_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSupervisor("EXITED"))
    bench.supervisor.exit_status = 1
    bench.during_waits = lambda: setattr(bench.supervisor, "state", "RUNNING")
    bench.supervisor.on_stop = lambda: setattr(
        bench.supervisor, "state", "STOPPED" if bench.supervisor.state == "RUNNING" else "EXITED"
    )
    assert bench.control.stop() is True
    assert bench.supervisor.state == "STOPPED"
