from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat
from storekeeper.errors import RefusedError
from storekeeper.ops.control.app_control import app_control
from storekeeper.ops.control.process_supervisor import ExternalSupervisor, supervisor_of
from storekeeper.ops.control.watch import AppWatcher
from storekeeper.ops.operations_settings import OperationsSettings


@pytest.fixture
def settings(tmp_path: Path) -> OperationsSettings:
    return OperationsSettings(run_dir=tmp_path)  # type: ignore[call-arg]


def beat(settings: OperationsSettings, state: AppState, *, age_ms: int = 0) -> None:
    at_ms = SystemClock().now_ms() - age_ms
    write_heartbeat(settings.heartbeat_file("pos"), Heartbeat("pos", 1, 77, state, at_ms, at_ms))


def test_without_a_supervisor_apps_are_seen_by_their_heartbeats(settings: OperationsSettings) -> None:
    supervisor = supervisor_of(settings)
    assert isinstance(supervisor, ExternalSupervisor)
    assert supervisor.names() == []
    assert supervisor.process("pos").state == "STOPPED"
    beat(settings, AppState.RUNNING)
    assert supervisor.names() == ["pos"]
    assert (supervisor.process("pos").state, supervisor.process("pos").pid) == ("RUNNING", 77)
    assert app_control("pos", settings, supervisor).ensure() is False
    beat(settings, AppState.FAILED)
    assert (supervisor.process("pos").state, supervisor.process("pos").exit_status) == ("EXITED", 1)


def test_they_are_not_started_or_stopped_from_here(settings: OperationsSettings) -> None:
    supervisor = supervisor_of(settings)
    beat(settings, AppState.RUNNING)
    control = app_control("pos", settings, supervisor)
    for act in (control.stop, control.restart):
        with pytest.raises(
            RefusedError, match=r"pos can't be stopped from here.*systemctl restart storekeeper-run@pos"
        ):
            act()
    beat(settings, AppState.STOPPED)
    with pytest.raises(RefusedError, match="pos can't be started from here"):
        control.start()


def test_an_ill_one_is_reported_and_not_restarted(settings: OperationsSettings) -> None:
    beat(settings, AppState.RUNNING, age_ms=3_600_000)
    watcher = AppWatcher(supervisor_of(settings), settings, SystemClock())
    for _ in range(2):
        found = watcher.check({"pos": ["pos"]})
        assert found.actions["pos"]["action"] == "restart"
        assert "pos could not be restarted (the last heartbeat is 36" in found.alerts[0]
    beat(settings, AppState.STOPPED)
    assert watcher.check({"pos": ["pos"]}).actions["pos"] == {"action": "none", "reason": "stopped"}
