"""Real processes, found by the variables that they were started with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from storekeeper.ops.marked_processes import end_processes, mark_of

_NAME = "STOREKEEPER_TEST_MARK"


@pytest.fixture
def restless(tmp_path: Path) -> Iterator[psutil.Process]:
    """A marked process that does nothing but replace its program."""
    script = tmp_path / "again.sh"
    script.write_text('exec /bin/sh "$0"\n')
    with subprocess.Popen(["/bin/sh", str(script)], env={_NAME: "mine"}) as process:
        yield psutil.Process(process.pid)
        process.kill()


def test_a_process_that_replaces_its_program_keeps_its_mark(restless: psutil.Process) -> None:
    assert {mark_of(restless, _NAME) for _ in range(3_000)} == {"mine"}


def test_others_have_no_mark() -> None:
    assert mark_of(psutil.Process(), _NAME) is None
    with subprocess.Popen([sys.executable, "-c", "input()"], env={}, stdin=subprocess.PIPE) as bare:
        assert mark_of(psutil.Process(bare.pid), _NAME) is None
        end_processes([psutil.Process(bare.pid)])
    assert mark_of(psutil.Process(1), _NAME) is None
