"""Waiting for a supervisor in the foreground: TERM stops the platform, and its own end is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import eventually
from storekeeper.ops import foreground

_SUPERVISOR = """
import os, sys, time
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
sys.exit(int(open(sys.argv[1]).read() or 0))
"""
# Starts the supervisor as its child, then becomes the program that waits for it, as `storekeeper supervise` does.
_BECOMES = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE, text=True)
pid = child.stdout.readline().strip()
print("begun", flush=True)
os.execv(sys.executable, [sys.executable, sys.argv[3], pid, *sys.argv[4:]])
"""


class Waiting:
    """A process that waits for a supervisor which ends when the file `ends` is there, with the exit code in it."""

    def __init__(self, folder: Path) -> None:
        self.ends, self.stopped, self.busy = folder / "ends", folder / "stopped", folder / "busy"
        stop = "; ".join(
            (
                f"test ! -e {self.busy} || {{ touch {self.busy}.seen; exit 75; }}",
                f"touch {self.stopped}",
                f"test -e {self.ends} || printf 0 > {self.ends}.new",
                f"mv {self.ends}.new {self.ends}",
            )
        )
        command = [sys.executable, "-c", _BECOMES, _SUPERVISOR, str(self.ends), foreground.__file__]
        self.process = subprocess.Popen(
            [*command, "sh", "-c", stop], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "begun\n"
        eventually(self._waits, 60, "it waits")

    def _waits(self) -> bool:
        """Whether it takes TERM by itself: both programs are Python, so its handlers say which one it is."""
        caught = next(
            line.split()[1]
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            if line.startswith("SigCgt")
        )
        return bool(int(caught, 16) & 1 << (signal.SIGTERM - 1))

    def ended(self) -> tuple[int, bool]:
        _, self.said = self.process.communicate(timeout=60)
        return self.process.returncode, self.stopped.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_platform_in_its_order(tmp_path: Path, number: signal.Signals) -> None:
    waiting = Waiting(tmp_path)
    waiting.process.send_signal(number)
    assert waiting.ended() == (0, True)


def test_a_signal_counts_although_another_command_is_at_work_when_it_arrives(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.busy.touch()
    waiting.process.send_signal(signal.SIGTERM)
    eventually((tmp_path / "busy.seen").exists, 60, "it was told to wait")
    waiting.busy.unlink()
    assert waiting.ended() == (0, True)


def test_a_platform_that_somebody_stops_ends_it(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    waiting.ends.write_text("0")
    assert waiting.ended() == (0, False)


def test_a_supervisor_that_ends_by_itself_is_a_failure_and_leaves_nothing(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    (tmp_path / "new").write_text("3")
    (tmp_path / "new").rename(waiting.ends)
    assert waiting.ended() == (1, True)
    assert "the supervisor has ended by itself" in waiting.said
