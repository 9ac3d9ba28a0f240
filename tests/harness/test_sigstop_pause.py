"""A process that stands still has done so when the block begins, and goes on after it."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from harness.sigstop_pause import sigstop_pause
from harness.waiting import eventually

BUSY = """
import sys, threading
counted = open(sys.argv[1], "wb", buffering=0)
def count():
    while True:
        counted.write(b".")
for _ in range(20):
    threading.Thread(target=count, daemon=True).start()
threading.Event().wait()
"""


def test_nothing_is_done_while_a_process_stands_still(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    with subprocess.Popen([sys.executable, "-c", BUSY, str(counted)]) as busy:
        try:
            assert eventually(lambda: counted.exists() and counted.stat().st_size, 30, "it runs")
            for _ in range(20):
                with sigstop_pause(busy.pid):
                    found = counted.stat().st_size
                    assert not any(counted.stat().st_size - found for _ in range(1000))
                assert eventually(partial(_is_longer, counted, found), 30, "it goes on")
        finally:
            busy.kill()


def _is_longer(file: Path, than_bytes: int) -> bool:
    return file.stat().st_size > than_bytes


def test_a_process_that_has_ended_is_not_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with sigstop_pause(ended.pid):
            pass
