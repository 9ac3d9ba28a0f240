from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import eventually
from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.changelog.position import Position
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.batch_query import BatchRefusedError
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.heartbeat import AppState, read_heartbeat
from storekeeper.generations import run as run_module
from storekeeper.generations import steps
from storekeeper.generations.boundary import plan_batch
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.desired_state import Role
from storekeeper.generations.journal import Journal, JournalFile
from storekeeper.generations.run import BatchLimit, GenerationRun
from tests.apps.checkpoints import write_checkpoint

NO_FRAME: Any = None


class _StartedError(Exception):
    pass


def test_a_generation_that_holds_runs_the_plan_that_a_killed_step_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AppSettings(run_dir=tmp_path)
    journal = steps.started(steps.planned(first_journal(POS), POS, []), 2)
    JournalFile(tmp_path, POS.name).write(steps.begun(journal, 2, compares=True))
    folder = settings.in_generation(journal.generation(2).number).checkpoint_dir(POS.name)
    write_checkpoint(folder, [{"pos": {"0": 5}}], committed=1, initial=None)
    started: list[str] = []

    def start_for_apps(name: str, *_: object) -> None:
        started.append(name)
        raise _StartedError

    monkeypatch.setattr(run_module, "start_for_apps", start_for_apps)

    def process() -> None:
        with pytest.raises(_StartedError):
            GenerationRun(POS, settings, SystemClock(), threading.Event(), Role.NEXT)()

    thread = threading.Thread(target=process)
    thread.start()
    heartbeat = settings.heartbeat_file("pos-next")

    def holds() -> bool:
        beat = read_heartbeat(heartbeat)
        return beat is not None and beat.state is AppState.PAUSED

    eventually(holds, 30, "it holds")
    assert not started
    checkpoint = BatchCheckpoint(folder)
    plan_batch(checkpoint, 1, Position({"pos": {0: 9}}))
    thread.join(30)
    assert started == ["pos-next"]


@pytest.mark.parametrize(("role", "generation"), [(Role.LIVE, 1), (Role.NEXT, 2)])
def test_a_plan_beyond_the_batch_at_which_a_generation_holds_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role, generation: int
) -> None:
    settings, end = AppSettings(run_dir=tmp_path), Position({"pos": {0: 7}})
    started = steps.started(steps.planned(first_journal(POS), POS, []), 2)
    begun = steps.waiting(steps.begun(started, 2, compares=True), end)
    journal = steps.aligning(begun, end, source_batch=1, target_batch=1)
    JournalFile(tmp_path, POS.name).write(journal)
    folder = settings.in_generation(journal.generation(generation).number).checkpoint_dir(POS.name)
    write_checkpoint(folder, [{"pos": {"0": 5}}, {"pos": {"0": 7}}, {"pos": {"0": 9}}], committed=2, initial=None)

    def start_for_apps(name: str, *_: object) -> None:
        pytest.fail(f"{name} starts a query, which has nothing to do")

    monkeypatch.setattr(run_module, "start_for_apps", start_for_apps)
    stop, heartbeat = threading.Event(), settings.heartbeat_file(role.program(POS.name))
    thread = threading.Thread(target=GenerationRun(POS, settings, SystemClock(), stop, role))
    thread.start()

    def holds() -> bool:
        beat = read_heartbeat(heartbeat)
        return beat is not None and beat.state is AppState.PAUSED

    try:
        eventually(holds, 30, "it holds")
    finally:
        stop.set()
        thread.join(30)
    checkpoint = BatchCheckpoint(folder)
    assert (checkpoint.last_planned_batch(), checkpoint.last_committed_batch()) == (1, 1)


def test_there_is_nothing_to_run_beside_an_app_that_never_changed(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    GenerationRun(POS, settings, SystemClock(), threading.Event(), Role.NEXT)()
    beat = read_heartbeat(settings.heartbeat_file("pos-next"))
    assert beat is not None
    assert beat.state is AppState.STOPPED


def test_orders_that_cannot_be_watched_end_the_term(tmp_path: Path) -> None:
    run = GenerationRun(POS, AppSettings(run_dir=tmp_path), SystemClock(), threading.Event(), Role.LIVE)
    orders, ended = run._desired(), threading.Event()
    assert orders is not None

    def reached() -> bool:
        raise RuntimeError("nobody foresaw it")

    with run._watching(orders, reached, ended):
        assert ended.wait(30)


def test_an_app_that_never_changed_is_described_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []

    def first(spec: AppSpec) -> Journal:
        described.append(spec.name)
        return first_journal(spec)

    monkeypatch.setattr(run_module, "first_journal", first)
    run = GenerationRun(POS, AppSettings(run_dir=tmp_path), SystemClock(), threading.Event(), Role.NEXT)
    assert (run._desired(), run._desired()) == (None, None)
    assert described == ["pos"]
    changed = steps.started(steps.planned(first_journal(POS), POS, []), 2)
    JournalFile(tmp_path, POS.name).write(changed)
    desired = run._desired()
    assert desired is not None, "a journal that is written later is followed"
    assert desired.generation.number == 2


def test_a_limit_lets_nothing_begin_behind_it() -> None:
    ended: list[bool] = []
    limit = BatchLimit(4, lambda: ended.append(True))
    run: list[int] = []
    process = limit(run.append)
    process(3)
    process(4)
    assert not ended
    with pytest.raises(BatchRefusedError):
        process(5)
    assert (run, limit.begun, ended) == ([3, 4], 4, [True])
