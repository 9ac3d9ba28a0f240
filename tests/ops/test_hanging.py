"""Frozen processes are continued, and what hangs is ended once it had the time to answer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest

from harness.waiting import eventually
from storekeeper.ops import hanging as module
from storekeeper.ops.hanging import continue_frozen, end_hanging
from storekeeper.ops.overview.model import Process
from storekeeper.ops.overview.processes import NO_ANSWER, Probes
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo, SupervisorRpc


class FakeSupervisor:
    """Has processes, and notes those that are to be stopped."""

    def __init__(self, *found: ProcessInfo) -> None:
        self._found = found
        self.stopped: list[str] = []

    def processes(self) -> list[ProcessInfo]:
        return [replace(one, state="STOPPED") if one.name in self.stopped else one for one in self._found]

    def stop(self, name: str) -> bool:
        self.stopped.append(name)
        return True


def test_a_process_that_a_signal_has_stopped_goes_on() -> None:
    said: list[str] = []
    with subprocess.Popen(["sleep", "60"]) as sleeper, subprocess.Popen(["sleep", "60"]) as other:
        try:
            os.kill(sleeper.pid, signal.SIGSTOP)
            eventually(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED, 60, "it has stopped")
            supervisor = FakeSupervisor(
                ProcessInfo("kafka", "RUNNING", sleeper.pid, 0, 0),
                ProcessInfo("node-a", "RUNNING", other.pid, 0, 0),
                ProcessInfo("node-b", "STOPPED", 0, 0, 0),
            )
            continue_frozen(cast("SupervisorRpc", supervisor), said.append)
            eventually(lambda: psutil.Process(sleeper.pid).status() != psutil.STATUS_STOPPED, 60, "it goes on")
        finally:
            sleeper.kill()
            other.kill()
    assert said == ["continued kafka, which a signal had stopped"]


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a server that takes connections and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def seen(name: str, *, detail: str = NO_ANSWER, uptime_s: int = 3600) -> Process:
    return Process(name, "RUNNING", detail == "", 7, uptime_s, None, detail)


def ended(settings: PlatformSettings, *processes: Process) -> list[str]:
    """Those of some processes that are ended, of a platform of which nothing answers in half a second."""
    supervisor = FakeSupervisor(*(ProcessInfo(one.name, "RUNNING", 7, 0, 0) for one in processes))
    end_hanging(cast("SupervisorRpc", supervisor), processes, settings, lambda _: None)
    return supervisor.stopped


def test_what_takes_requests_and_answers_none_is_ended_once_it_had_the_time(
    tmp_path: Path, mute: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.5)
    settings = PlatformSettings.load(run_dir=tmp_path, kafka_port=mute, control_port=mute, start_timeout_s=240)
    assert ended(settings, seen("kafka"), seen("control"), seen("node-a", detail="")) == ["kafka", "control"]
    assert ended(settings, seen("kafka", uptime_s=239)) == [], "it may be starting"
    assert ended(settings, seen("node-a", detail="not ready: 3 of 8"), seen("orders", detail="starting")) == []


def test_what_is_slow_and_answers_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path)
    monkeypatch.setattr(Probes, "problem", lambda *_: None)
    assert ended(settings, seen("kafka"), seen("node-a")) == []
