"""A process that makes no progress ends itself, says why, and can be started again."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storekeeper.engine.driver.watchdog import Progress
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.program import NO_RESTART, ExitCode

BEAT = Heartbeat("pos", 1, 7, AppState.RUNNING, 1_000, 2_000, last_progress_ms=1_500)
BEHIND = {"offsets": {"pos": {"0": 1}}, "latest_offsets": {"pos": {"0": 2}}}


def looked(*beats: Heartbeat | None) -> str | None:
    """Why an app stalls that had these heartbeats, one each 100 s, where 250 s are allowed."""
    progress = Progress(limit_s=250, began_s=0, pid=7)
    found = None
    for number, beat in enumerate(beats):
        found = progress.stalled({"pos": beat}, 100.0 * number)
    return None if found is None else found[1]


def beating(**more: Any) -> list[Heartbeat]:
    return [replace(BEAT, updated_at_ms=2_000 + number, **more) for number in range(5)]


@pytest.mark.parametrize(
    ("beats", "reason"),
    [
        ([None] * 5, "no heartbeat of this process for 400 s"),
        ([replace(BEAT, pid=8)] * 5, "no heartbeat of this process for 400 s"),
        ([BEAT] * 5, "no heartbeat for 400 s"),
        ([replace(BEAT, state=AppState.PAUSED)] * 5, "no heartbeat for 400 s"),
        (beating(state=AppState.STARTING), "it is starting for 400 s"),
        (beating(**BEHIND), "input waits, but no batch was committed for 400 s"),
        (beating(), None),
        (beating(state=AppState.PAUSED, **BEHIND), None),
        ([replace(BEAT, state=AppState.STOPPING)] * 5, None),  # the supervisor ends a stop that takes too long
        ([replace(BEAT, state=AppState.FAILED)] * 5, None),  # one of several apps; the others go on
        ([replace(beat, last_progress_ms=beat.updated_at_ms) for beat in beating(**BEHIND)], None),
        ([*beating(state=AppState.STARTING)[:3], *beating(**BEHIND)[:2]], None),
        (
            [replace(beat, restoring=({"done": beat.updated_at_ms, "total": 9_999},)) for beat in beating(**BEHIND)],
            None,
        ),
    ],
)
def test_an_app_goes_on_or_stalls(beats: list[Heartbeat | None], reason: str | None) -> None:
    assert looked(*beats) == reason


def test_each_app_of_a_process_has_to_go_on() -> None:
    progress = Progress(limit_s=250, began_s=0, pid=7)
    for number, (one, other) in enumerate(zip(beating(**BEHIND), beating(), strict=True)):
        found = progress.stalled({"other": other, "pos": one}, 100.0 * number)
    assert found == ("pos", "input waits, but no batch was committed for 400 s")


_STUCK = """
import os, sys, threading
from pathlib import Path
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.engine.driver import watchdog
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat

settings = AppSettings(run_dir=sys.argv[1], trigger_interval_ms=0).model_copy(update={"progress_timeout_s": 0.3})
path = settings.heartbeat_file("pos")
watchdog._POLL_S = 0.05
with watchdog.ended_if_stalled({"pos": path}, settings, SystemClock()):
    write_heartbeat(path, Heartbeat("pos", 1, os.getpid(), AppState.STARTING, 1, 1))
    %s
"""


def stuck(run_dir: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _STUCK % code, str(run_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_process_that_stalls_ends_with_the_code_for_again_and_its_stacks(tmp_path: Path) -> None:
    done = stuck(tmp_path, "threading.Event().wait()")
    assert done.returncode == ExitCode.TRY_AGAIN
    assert done.returncode not in NO_RESTART
    assert "most recent call first" in done.stderr
    beat = read_heartbeat(tmp_path / "heartbeats" / "pos.json")
    assert beat is not None
    assert (beat.state, beat.exit_code) == (AppState.FAILED, 75)
    assert beat.error is not None
    assert beat.error.startswith("it is starting for ")


def test_a_process_whose_threads_all_hang_is_ended_too(tmp_path: Path) -> None:
    """`PyDLL` keeps Python's global lock while it sleeps."""
    done = stuck(tmp_path, "import ctypes; ctypes.PyDLL(None).sleep(100)")
    assert done.returncode not in {0, *NO_RESTART}
    assert "Timeout (0:00:00.600000)!" in done.stderr


def test_one_that_has_committed_nothing_gets_twice_the_time_at_its_next_start(tmp_path: Path) -> None:
    stuck(tmp_path, "threading.Event().wait()")
    done = stuck(tmp_path, "import ctypes; ctypes.PyDLL(None).sleep(100)")
    assert "Timeout (0:00:01.200000)!" in done.stderr


@pytest.mark.parametrize(("batches", "stalls"), [(0, 2), (3, 1)])
def test_a_committed_batch_begins_the_time_anew(batches: int, stalls: int, tmp_path: Path) -> None:
    stuck(tmp_path, "threading.Event().wait()")
    beat = f"Heartbeat('pos', 1, os.getpid(), AppState.STARTING, 1, 1, batches_total={batches})"
    stuck(tmp_path, f"write_heartbeat(path, {beat}); threading.Event().wait()")
    last = read_heartbeat(tmp_path / "heartbeats" / "pos.json")
    assert last is not None
    assert last.stalls == stalls


def test_one_that_ends_in_time_is_left_alone(tmp_path: Path) -> None:
    done = stuck(tmp_path, "pass")
    assert (done.returncode, done.stderr) == (0, "")
