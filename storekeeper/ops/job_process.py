"""Runs one job: takes its lock, starts its program, and records how that ended.

Run as `python job_process.py FOLDER TIMEOUT_S PROGRAM ARGUMENT...`. It is not a child of the control process in any way
that matters: it has a session of its own, so it goes on when that process is killed. Started twice for one job, the
second one does nothing. The standard library only, since it runs beside each job.

FOLDER/lock    held for as long as this process or the job's program lives
FOLDER/started made once, ahead of the program: `{"pid", "started_at_ms"}`
FOLDER/cancel  there if somebody has cancelled the job: the reason
FOLDER/output  the program's standard output
FOLDER/log     its standard error
FOLDER/ended   `{"why", "exit_code", "ended_at_ms"}`
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

GRACE_S = 20.0
"""How long a cancelled program may take to end after TERM, before it is killed."""
ENDED, CANCELLED, TIMED_OUT, LOST = "ended", "cancelled", "timed out", "lost"
"""Why a job is over. LOST: it was killed, or stopped with the platform, so nobody knows how far it got."""


class _Stopped(Exception):  # noqa: N818 (it is a request)
    pass


class _Late(Exception):  # noqa: N818
    pass


def main(arguments: list[str]) -> None:
    """Runs the job to its end, unless it was started before."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGALRM, _be_late)
    folder, timeout_s, *command = arguments
    job = Path(folder)
    lock = os.open(job / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _write_new(job / "started", {"pid": os.getpid(), "started_at_ms": _now_ms()})
    except (BlockingIOError, FileExistsError):
        return
    why, exit_code = (CANCELLED, None) if (job / "cancel").exists() else _run(job, command, float(timeout_s), lock)
    write_end(job, why, exit_code)


def write_end(job: Path, why: str, exit_code: int | None) -> None:
    """Records how a job ended. What was recorded first holds."""
    with contextlib.suppress(FileExistsError):
        _write_new(job / "ended", {"why": why, "exit_code": exit_code, "ended_at_ms": _now_ms()})


def _run(job: Path, command: list[str], timeout_s: float, lock: int) -> tuple[str, int | None]:
    process = None
    why = ENDED
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        with (job / "output").open("wb") as output, (job / "log").open("wb") as log:
            # The program holds the lock, too: no second one starts while it lives, whatever happens to this process.
            process = subprocess.Popen(
                _ending_with_this(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
            )
            process.wait()
    except _Stopped:
        why = CANCELLED if (job / "cancel").exists() else LOST
    except _Late:
        why = TIMED_OUT
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    if process is None:
        return why, None
    _end_group(process)
    return why, process.returncode


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the program if it runs, and every child that it left."""
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ending_with_this(command: list[str]) -> list[str]:
    """The command, which the kernel kills if this process dies."""
    helper = Path(__file__).with_name("ends_with_parent.py")
    return [sys.executable, str(helper), str(os.getpid()), *command]


def _write_new(path: Path, fields: dict[str, str | int | None]) -> None:
    """Writes a file that must not be there yet, in one step. It survives a crash of the machine."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(fields, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Stopped


def _be_late(number: int, frame: FrameType | None) -> NoReturn:
    raise _Late


if __name__ == "__main__":
    main(sys.argv[1:])
