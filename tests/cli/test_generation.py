from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import ManualClock, SystemClock
from storekeeper.engine.runtime.heartbeat import HEARTBEAT_STALE_MS, AppState, Heartbeat, write_heartbeat
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations import steps
from storekeeper.generations.comparison import ComparisonVerdict
from storekeeper.generations.deletion import delete_generation, remove_folder
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import Generation
from storekeeper.generations.status import process_status
from storekeeper.program import ExitCode


@pytest.mark.parametrize("words", ["generation seed pos", "run --next pos"])
def test_where_a_setting_names_the_generation_there_is_no_other(tmp_path: Path, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", *words.split()],
        env={**os.environ, "STOREKEEPER_RUN_DIR": str(tmp_path), "STOREKEEPER_GENERATION": "2"},  # noqa: TID251 (a child's own)
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.REFUSED
    assert "fixes generation 2" in done.stderr
    assert not list(tmp_path.glob("generations/*")), "it changed nothing"


def failing(times: int, error: Callable[[], OSError]) -> Callable[[Path], None]:
    """`shutil.rmtree` that fails `times` times first."""
    real, left = shutil.rmtree, [times]

    def tried(path: Path) -> None:
        if left[0]:
            left[0] -= 1
            raise error()
        real(path)

    return tried


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state" / "0").mkdir(parents=True)
    return tmp_path / "state"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOTEMPTY, "Directory not empty"), FileNotFoundError(errno.ENOENT, "gone")], ids=str
)
def test_a_folder_that_is_still_written_to_is_removed_once_that_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr(shutil, "rmtree", failing(2, lambda: error))
    waits: list[float] = []
    remove_folder(folder, wait=waits.append)
    assert not folder.exists()
    assert len(waits) == 2


def test_a_folder_that_is_gone_is_not_waited_for(folder: Path) -> None:
    waits: list[float] = []
    shutil.rmtree(folder)
    remove_folder(folder, wait=waits.append)
    assert waits == []


@pytest.mark.parametrize(("error", "waited"), [(PermissionError(errno.EACCES, "denied"), 0), (OSError(39, "more"), 50)])
def test_a_folder_that_cannot_be_removed_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, waited: int
) -> None:
    monkeypatch.setattr(shutil, "rmtree", failing(1000, lambda: error))
    waits: list[float] = []
    with pytest.raises(type(error), match=str(error.strerror)):
        remove_folder(folder, wait=waits.append)
    assert len(waits) == waited


@pytest.mark.broker
def test_nothing_is_left_of_a_generation_whose_seed_broke_off(broker: Broker, tmp_path: Path) -> None:
    spec, settings = app_named("pos"), AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap)
    topics = Topics(broker.kafka)
    taken = GenerationController(
        spec, settings, SystemClock(), lambda _: None, lambda _: None, _not_compared, topics.committed_end
    )
    second = steps.planned(taken.read(), spec, []).generation(2)
    its_own = {*second.topics.values(), "pos-gen-2-0-markers", "pos-gen-2-again-repartition"}
    others = {"pos-gen-22-0-markers", "pos-gen-22-again-repartition", "pos-again-repartition"}
    for topic in its_own | others:
        broker.create_topic(topic, 1)
    delete_generation(taken, second)
    eventually(lambda: its_own.isdisjoint(topics.names()), 30, "its topics are gone")
    assert others <= set(topics.names())


def _not_compared(source: Generation, target: Generation) -> ComparisonVerdict:
    raise AssertionError(f"generations {source.number} and {target.number} are not compared to be deleted")


def test_the_status_says_what_is_wrong_with_a_process(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    assert process_status("pos", settings, ManualClock(HEARTBEAT_STALE_MS)) is None
    beat = Heartbeat("pos", 1, 7, AppState.RUNNING, started_at_ms=0, updated_at_ms=3_600_000)
    write_heartbeat(settings.heartbeat_file("pos"), beat)
    for passed_ms, age_ms, problem in (
        (HEARTBEAT_STALE_MS, HEARTBEAT_STALE_MS, None),
        (HEARTBEAT_STALE_MS + 1, HEARTBEAT_STALE_MS + 1, "no heartbeat for 30 s"),
        (-HEARTBEAT_STALE_MS, 0, None),
        (-HEARTBEAT_STALE_MS - 1, None, "no heartbeat since the clock was set back"),
    ):
        status = process_status("pos", settings, ManualClock(3_600_000 + passed_ms))
        assert status is not None
        assert (status["age_ms"], status["problem"]) == (age_ms, problem)
