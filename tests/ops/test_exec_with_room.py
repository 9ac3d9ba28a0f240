"""A program that isn't started on a full disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from storekeeper.ops import exec_with_room

MIB = 1 << 20


def test_the_program_begins_when_its_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    happened: list[object] = []
    free = iter([0, 63 * MIB, 64 * MIB - 1, 64 * MIB])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    monkeypatch.setattr(exec_with_room, "time", SimpleNamespace(sleep=lambda _: happened.append("waits")))
    monkeypatch.setattr(os, "execvp", lambda program, argv: happened.append((program, argv)))
    exec_with_room.main([str(tmp_path), "64", "java", "-x"])
    assert happened == ["waits", "waits", ("java", ["java", "-x"])]
    assert f"the disk under {tmp_path} is full" in capsys.readouterr().err


def test_with_room_it_becomes_the_program_at_once(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getpid()); sys.exit(78)"
    command = [sys.executable, exec_with_room.__file__, str(tmp_path), "1", sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (78, "")
    assert int(output) == process.pid
