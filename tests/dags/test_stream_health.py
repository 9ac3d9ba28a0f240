from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dags.operators import stream_health
from dags.operators.app_control import AppControl, Patience
from dags.operators.errors import SupervisorUnreachableError
from dags.operators.stream_health import StreamHealthTrigger
from dags.operators.supervisor_rpc import ProcessInfo
from spark_apps.runtime.heartbeat import AppState
from state.clock import SystemClock
from tests.dags.test_app_control import Bench, FakeSupervisor

FAR_MS = SystemClock().now_ms() + 86_400_000  # tests may run long after they are collected
PAST_MS = 1


def fired(monkeypatch: pytest.MonkeyPatch, control: AppControl, wanted: str, deadline_ms: int = FAR_MS) -> Any:
    """What the trigger says, after as many looks as it takes."""
    monkeypatch.setattr(stream_health, "app_control", lambda app, settings: control)
    monkeypatch.setattr(stream_health, "_PAUSE_S", 0.001)
    trigger = StreamHealthTrigger(app="pos", wanted=wanted, deadline_ms=deadline_ms, carried={"changed": True})

    async def first_event() -> Any:
        async for event in trigger.run():
            return event.payload
        return None

    payload = asyncio.run(asyncio.wait_for(first_event(), 30))
    assert payload["carried"] == {"changed": True}
    return payload


def test_it_fires_when_the_app_says_that_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    looks: list[str] = []

    def process(name: str) -> ProcessInfo:
        looks.append(name)
        if len(looks) == 4:
            bench.beat(AppState.RUNNING)
        return FakeSupervisor.process(bench.supervisor, name)

    monkeypatch.setattr(bench.supervisor, "process", process)
    assert fired(monkeypatch, bench.control, "running")["seen"] == "reached"
    assert len(looks) >= 4


def test_it_fires_when_the_app_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, FakeSupervisor("STOPPED"))
    assert fired(monkeypatch, bench.control, "ended")["seen"] == "reached"


def test_an_app_that_cannot_run_is_a_failure_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, FakeSupervisor("EXITED"))
    bench.beat(AppState.FAILED, error="no topic pos")
    said = fired(monkeypatch, bench.control, "running")
    assert said["seen"] == "failed"
    assert "no topic pos" in said["message"]
    assert "the last words" in said["message"]


@pytest.mark.parametrize(("wanted", "words"), [("running", "doesn't run in time"), ("ended", "didn't end in time")])
def test_it_doesnt_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, words: str) -> None:
    bench = Bench(tmp_path, FakeSupervisor("RUNNING"))
    said = fired(monkeypatch, bench.control, wanted, PAST_MS)
    assert said["seen"] == "late"
    assert words in said["message"]


def test_a_supervisor_that_is_away_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, FakeSupervisor("STOPPED"))
    asked: list[str] = []

    def process(name: str) -> ProcessInfo:
        asked.append(name)
        if len(asked) < 3:
            raise SupervisorUnreachableError("away")
        return FakeSupervisor.process(bench.supervisor, name)

    monkeypatch.setattr(bench.supervisor, "process", process)
    assert fired(monkeypatch, bench.control, "ended")["seen"] == "reached"
    assert fired(
        monkeypatch,
        AppControl(
            "pos",
            supervisor=Away(),
            heartbeat=lambda: None,
            patience=Patience(1, 1, 1),
            clock=SystemClock(),
            pause=lambda _: None,
        ),
        "ended",
        PAST_MS,
    ) == {"seen": "late", "message": "away", "carried": {"changed": True}}


class Away(FakeSupervisor):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__("STOPPED")

    def process(self, name: str) -> ProcessInfo:
        raise SupervisorUnreachableError("away")


def test_it_survives_being_kept_by_airflow() -> None:
    trigger = StreamHealthTrigger(app="pos", wanted="running", deadline_ms=7, carried={"changed": False})
    path, fields = trigger.serialize()
    assert path == "dags.operators.stream_health.StreamHealthTrigger"
    assert StreamHealthTrigger(**fields).serialize() == (path, fields)
