from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.engine.runtime.heartbeat_writer import HeartbeatWriter
from storekeeper.errors import ConfigurationError
from storekeeper.program import ExitCode

FIRST = Heartbeat("pos", 1, 7, AppState.STARTING, 0, 0)


def test_beats_go_on_without_anybody_asking(tmp_path: Path) -> None:
    clock, beaten = ManualClock(), threading.Semaphore(0)
    heartbeats = HeartbeatWriter(tmp_path / "a.json", FIRST, interval_s=0.01, clock=clock)

    def refresh(heartbeat: Heartbeat) -> Heartbeat:
        clock.advance(1)
        beaten.release()
        return replace(heartbeat, input_rows_total=heartbeat.input_rows_total + 1)

    heartbeats.refresh_with(refresh)
    heartbeats.start()
    for _ in range(3):
        assert beaten.acquire(timeout=10)
    heartbeats.stop()
    beat = read_heartbeat(tmp_path / "a.json")
    assert beat is not None
    assert beat.input_rows_total >= 3
    assert beat.updated_at_ms == clock.now_ms()


def test_a_change_of_state_is_told_at_once(tmp_path: Path) -> None:
    heartbeats = HeartbeatWriter(tmp_path / "a.json", FIRST, interval_s=3600, clock=ManualClock(5))
    heartbeats.enter(AppState.RUNNING, jvm_pid=8)
    heartbeats.enter(AppState.FAILED, error="why")
    assert read_heartbeat(tmp_path / "a.json") == replace(
        FIRST, state=AppState.FAILED, jvm_pid=8, error="why", updated_at_ms=5
    )


@pytest.mark.parametrize(
    ("error", "shown", "exit_code"),
    [
        (ConfigurationError("no topic"), "ConfigurationError: no topic", ExitCode.CONFIGURATION),
        (BrokerUnavailableError("away"), "BrokerUnavailableError: away", ExitCode.TRY_AGAIN),
        (ValueError("a secret"), "ValueError", None),
    ],
)
def test_the_last_beat_says_how_the_process_ends(
    tmp_path: Path, error: Exception, shown: str, exit_code: int | None
) -> None:
    path = tmp_path / "a.json"
    heartbeats = HeartbeatWriter(path, FIRST, interval_s=3600, clock=ManualClock(5))
    with pytest.raises(type(error)), heartbeats.running():
        raise error
    assert read_heartbeat(path) == replace(
        FIRST, state=AppState.FAILED, error=shown, exit_code=exit_code, updated_at_ms=5
    )
    heartbeats.enter(AppState.STARTING)
    assert read_heartbeat(path) == replace(FIRST, updated_at_ms=5)


def test_beats_go_on_when_spark_does_not_answer(tmp_path: Path) -> None:
    clock = ManualClock(5)
    heartbeats = HeartbeatWriter(tmp_path / "a.json", FIRST, interval_s=3600, clock=clock)

    def refresh(_: Heartbeat) -> Heartbeat:
        raise ConnectionRefusedError

    heartbeats.refresh_with(refresh)
    heartbeats.beat()
    assert read_heartbeat(tmp_path / "a.json") == replace(FIRST, updated_at_ms=5)
