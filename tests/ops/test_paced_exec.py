"""Restarts with back-off in which the exit code still counts, and none on a full disk."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from storekeeper.ops import paced_exec
from storekeeper.ops.paced_exec import LONGEST_PAUSE_S, ROOM, next_pause_s, pause_s, quick_ends

MIB = 1 << 20


def test_the_pause_doubles_up_to_a_minute() -> None:
    assert [pause_s(ends) for ends in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize(
    ("started_s", "now_s", "ends"),
    [
        (None, 1000.0, 0),
        (1000.0, 1029.9, 4),
        (1000.0, 1030.0, 0),
        (1000.0, 999.0, 0),  # the clock was set back: it can't be told, so don't punish
    ],
)
def test_only_quick_ends_count(started_s: float | None, now_s: float, ends: int) -> None:
    assert quick_ends(started_s, 3, now_s) == ends


def test_pauses_grow_from_start_to_start_and_end_after_a_good_run(tmp_path: Path) -> None:
    file = tmp_path / "pos.start.json"
    assert next_pause_s(file, 1000.0, ["app"]) == 0
    assert next_pause_s(file, 1002.0, ["app"]) == 1
    assert next_pause_s(file, 1005.0, ["app"]) == 2  # that run began after its pause, at 1003
    assert next_pause_s(file, 1100.0, ["app"]) == 0
    assert next_pause_s(file, 1101.0, ["app"]) == 1


def test_a_damaged_state_file_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "pos.start.json"
    file.write_text("{")
    assert next_pause_s(file, 1000.0, ["app"]) == 0


def test_a_start_that_can_not_be_recorded_waits_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pos.start.json"
    next_pause_s(file, 1000.0, ["app"])
    before = file.read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    assert next_pause_s(file, 1001.0, ["app"]) == LONGEST_PAUSE_S
    assert "No space left on device" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_the_program_begins_when_its_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    happened: list[object] = []
    free = iter([0, 63 * MIB, 64 * MIB - 1, 64 * MIB])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    monkeypatch.setattr(time, "sleep", lambda _: happened.append("waits"))
    monkeypatch.setattr(os, "execvp", lambda program, argv: happened.append((program, argv)))
    paced_exec.main([str(tmp_path / "kafka.start.json"), ROOM, str(tmp_path), "64", "java", "-x"])
    assert happened == ["waits", "waits", ("java", ["java", "-x"])]
    assert f"the disk under {tmp_path} is full" in capsys.readouterr().err


@pytest.mark.parametrize("room", [(), (ROOM, "/", "1")])
def test_it_becomes_the_program_and_leaves_its_exit_code(tmp_path: Path, room: tuple[str, ...]) -> None:
    program = "import os, sys; print(os.getpid()); sys.exit(78)"
    command = [sys.executable, paced_exec.__file__, str(tmp_path / "state.json"), *room, sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 78
    assert int(output) == process.pid
