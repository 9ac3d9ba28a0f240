"""Commands that the control process asks: their answers, their reasons, and their end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from storekeeper.ops.control import asked as module
from storekeeper.ops.control.asked import asked
from storekeeper.ops.control.problems import CommandFailedError, NotNowError, control_problem
from storekeeper.ops.waiting import eventually

Program = Callable[[str], None]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Replaces `storekeeper` by a program."""

    def replaced(code: str) -> None:
        monkeypatch.setattr(module, "storekeeper_command", lambda *words: [sys.executable, "-c", code, *words])

    return replaced


def test_an_answer_is_what_a_command_prints_as_json(program: Program) -> None:
    program("import json, sys; print(json.dumps({'words': sys.argv[1:]}))")
    assert asked("topology", "pos") == {"words": ["topology", "pos", "--output", "json"]}


@pytest.mark.parametrize(
    ("code", "kind", "status"), [(75, NotNowError, 503), (78, CommandFailedError, 500), (1, CommandFailedError, 500)]
)
def test_a_failure_has_the_commands_reason_and_says_whether_waiting_helps(
    program: Program, tmp_path: Path, code: int, kind: type[Exception], status: int
) -> None:
    log = tmp_path / "log"
    log.write_text("storekeeper: of before\n")
    program(f"import sys; sys.stderr.write('noise\\nstorekeeper: it is\\nstorekeeper: so\\n'); sys.exit({code})")
    with pytest.raises(kind, match=r"^it is so$") as failed:
        asked("check", "t", log=log)
    assert control_problem(failed.value).status == status
    assert log.read_text().splitlines()[0] == "storekeeper: of before", "what was there stays"


def test_a_command_without_a_reason_is_named(program: Program) -> None:
    program("raise SystemExit(3)")
    with pytest.raises(CommandFailedError, match="`storekeeper check t` ended with exit code 3"):
        asked("check", "t")


def test_a_command_that_nobody_waits_for_any_more_is_ended(program: Program, tmp_path: Path) -> None:
    program(f"open({str(tmp_path / 'begun')!r}, 'w').close(); import signal; signal.pause()")

    def pause(_: float) -> None:
        if (tmp_path / "begun").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked("check", "t", pause=pause)


def test_the_children_of_a_command_end_with_it(program: Program, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    child = (
        f"import os, signal; new = {str(begun) + '.new'!r}; open(new, 'w').write(str(os.getpid())); "
        f"os.rename(new, {str(begun)!r}); signal.pause()"
    )
    program(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")

    def pause(_: float) -> None:
        if begun.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked("check", "t", pause=pause)
    pid = int(begun.read_text())
    try:
        assert eventually(lambda: not runs(pid), 60)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_that_takes_too_long_is_ended(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program("import signal; signal.pause()")
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.0)
    with pytest.raises(CommandFailedError, match="`storekeeper check t` took longer than 0 s"):
        asked("check", "t")
