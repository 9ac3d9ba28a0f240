from __future__ import annotations

import os
from pathlib import Path

import httpx2
import pytest

from storekeeper.clock import ManualClock
from storekeeper.engine.driver.health_server import health_served
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat
from storekeeper.errors import ConfigurationError

NOW_MS = 1_000_000


def beat(path: Path, *, pid: int | None = None, state: AppState = AppState.RUNNING) -> None:
    write_heartbeat(path, Heartbeat("pos", 1, os.getpid() if pid is None else pid, state, NOW_MS, NOW_MS))


def ask(port: int | None, path: str) -> tuple[int, str]:
    answer = httpx2.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
    return answer.status_code, answer.text.strip()


def test_a_process_is_ready_when_all_of_its_apps_run(tmp_path: Path) -> None:
    files, clock = [tmp_path / "pos.json", tmp_path / "ticks.json"], ManualClock(NOW_MS)
    with health_served(0, files, clock) as port:
        assert ask(port, "/livez") == (200, "alive")
        assert ask(port, "/readyz") == (503, "pos: no heartbeat yet")
        beat(files[0])
        assert ask(port, "/readyz") == (503, "ticks: no heartbeat yet")
        beat(files[1], pid=1)
        assert ask(port, "/readyz") == (503, "ticks: starting"), "a beat of an earlier process says nothing"
        beat(files[1])
        assert ask(port, "/readyz") == (200, "ready")
        beat(files[1], state=AppState.FAILED)
        assert ask(port, "/readyz")[0] == 503
        beat(files[1])
        clock.advance(60_000)
        assert ask(port, "/readyz") == (503, "pos: no heartbeat for 60 s")
        assert ask(port, "/nothing")[0] == 404


def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with (
        health_served(0, [], ManualClock(NOW_MS)) as port,
        pytest.raises(ConfigurationError, match=f"can't listen on 127.0.0.1:{port} .*--health-port"),
        health_served(port, [], ManualClock(NOW_MS)),
    ):
        pass


def test_nothing_is_served_unless_asked_for() -> None:
    with health_served(None, [], ManualClock(NOW_MS)) as port:
        assert port is None
