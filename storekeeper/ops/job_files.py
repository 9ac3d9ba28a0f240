"""One job as files in a folder; see `job_process.py` for those that the job's own process writes.

FOLDER/job  what was asked for: made with the folder, never changed
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import psutil

from storekeeper.ops.job_process import CANCELLED, ENDED, LOST, TIMED_OUT, write_end
from storekeeper.ops.marked_processes import end_processes, mark_of
from storekeeper.whole_files import write_whole

JOB_MARKER = "STOREKEEPER_JOB"
"""Set to the job's folder for every process of the job."""
_LOG_BYTES = 1 << 16
_LONGEST_LINE = 1 << 22


class JobState(StrEnum):
    """How far a job is. `lost`: it was killed, or stopped with the platform; nobody knows how far it got."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = CANCELLED
    TIMED_OUT = TIMED_OUT
    LOST = LOST

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs, or will."""
        return self not in {JobState.QUEUED, JobState.RUNNING}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What somebody asked for. Two requests are alike if their arguments and timeouts are."""

    arguments: tuple[str, ...]
    timeout_s: float
    caller: str
    created_at_ms: int

    def is_like(self, other: JobRequest) -> bool:
        """Whether both ask for the same."""
        return (self.arguments, self.timeout_s) == (other.arguments, other.timeout_s)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The files of one job, which is there."""

    path: Path

    @classmethod
    def made(cls, path: Path, request: JobRequest) -> bool:
        """Makes a folder in one step. Returns False if there is one: of two callers, one makes it.

        A crash of the machine leaves a whole folder or none.
        """
        draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        draft.mkdir(mode=0o700, parents=True)
        try:
            write_whole(draft / "job", orjson.dumps(request), private=True, durable=True)
            draft.rename(path)
        except OSError:
            shutil.rmtree(draft)
            if path.is_dir():
                return False
            raise
        return True

    @property
    def request(self) -> JobRequest:
        """What was asked for.

        Raises:
            FileNotFoundError: there is no such job.
        """
        fields = orjson.loads((self.path / "job").read_bytes())
        return JobRequest(**{**fields, "arguments": tuple(fields["arguments"])})

    def damaged(self) -> list[str]:
        """The names of those of its files that must hold JSON and don't."""
        return [name for name in ("job", "started", "ended") if not _is_readable(self.path / name)]

    def asked_at_ns(self) -> int:
        """When it was asked for, by the clock of the file system. Raises what `request` raises."""
        return (self.path / "job").stat().st_mtime_ns

    @property
    def started(self) -> dict[str, int] | None:
        """`pid` and `started_at_ms` of its process; None before it was started."""
        return _json(self.path / "started")

    @property
    def ended(self) -> dict[str, Any] | None:
        """`why`, `exit_code` and `ended_at_ms`; None as long as nobody has recorded that."""
        return _json(self.path / "ended")

    def state(self) -> JobState:
        """How far it is. A job whose process is gone without a word is recorded as lost; what it left is ended."""
        if self.ended is None and self.started is not None and not self._is_locked() and self.ended is None:
            end_job_processes(self.path)
            write_end(self.path, LOST, None)
        ended = self.ended
        if ended is None:
            return JobState.QUEUED if self.started is None else JobState.RUNNING
        if ended["why"] == ENDED:
            return JobState.SUCCEEDED if ended["exit_code"] == 0 else JobState.FAILED
        return JobState(ended["why"])

    def cancel(self, reason: str) -> None:
        """Lets it end by TERM if it runs; keeps it from starting if it is queued. Doesn't wait.

        Safe to repeat: the last reason holds.
        """
        (self.path / "cancel").touch(0o600)
        (self.path / "cancel").write_text(reason, "utf-8")
        started = self.started
        if started is not None and not self.state().is_over:
            _terminate(started["pid"], self.path)

    @property
    def cancel_reason(self) -> str | None:
        """Why somebody has cancelled it, ended or not: empty without a reason, None if nobody has."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / "cancel").read_text("utf-8")
        return None

    def log_from(self, position: int | None) -> tuple[str, int]:
        """A part of its log, at most 64 KiB, and the position behind it.

        Args:
            position: where to begin, in bytes; None for the end of the log.
        """
        return _part(self.path / "log", position)

    def output_end(self) -> str:
        """The end of its standard output, at most 64 KiB."""
        return _part(self.path / "output", None)[0]

    def result(self) -> dict[str, Any] | None:
        """The JSON object on the last line of its standard output; None if there is none."""
        try:
            with (self.path / "output").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE))
                lines = file.read().splitlines()
            found = orjson.loads(lines[-1]) if lines else None
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _is_locked(self) -> bool:
        with contextlib.suppress(FileNotFoundError), (self.path / "lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def end_job_processes(folder: Path) -> None:
    """Ends every process that runs for a job, or for any job in a folder of jobs."""
    end_processes([process for process in psutil.process_iter() if _works_for(process, folder)])


def folders(root: Path) -> Iterator[JobFolder]:
    """The folders of all jobs."""
    return (JobFolder(path.parent) for path in root.glob("[!.]*/job"))


def _works_for(process: psutil.Process, folder: Path) -> bool:
    marked = mark_of(process, JOB_MARKER)
    return marked is not None and Path(marked).is_relative_to(folder)


def _terminate(pid: int, folder: Path) -> None:
    """Sends TERM to a job's process, unless another process has its id by now."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if _works_for(process, folder):
            process.send_signal(signal.SIGTERM)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _is_readable(path: Path) -> bool:
    try:
        _json(path)
    except ValueError:
        return False
    return True


def _part(path: Path, position: int | None) -> tuple[str, int]:
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(min(end, max(0, end - _LOG_BYTES) if position is None else position))
            found = file.read(_LOG_BYTES)
            return found.decode("utf-8", "replace"), file.tell()
    except FileNotFoundError:
        return "", 0
