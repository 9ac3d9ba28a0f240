"""The jobs of a platform: each has an id that its caller chose, runs once, and is found again by that id."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import structlog

from storekeeper.clock import Clock
from storekeeper.errors import StateError
from storekeeper.names import checked_name
from storekeeper.ops import job_process
from storekeeper.ops.job_files import JOB_MARKER, JobFolder, JobRequest, JobState, folders
from storekeeper.ops.job_process import CANCELLED, LOST, write_end
from storekeeper.private_files import private_folder
from storekeeper.program import storekeeper_command

KEPT_MS = 7 * 24 * 3600 * 1000
"""How long an ended job is kept if nobody collects it."""
_log = structlog.get_logger(__name__)


_URGENT = "app"
"""The command of changes of apps: they are short, and a person waits for them."""


class UnknownJobError(StateError):
    """There is no job of that id. It was never asked for, or somebody has collected it."""


class JobConflictError(StateError):
    """The job can't be had like that: it has other arguments, or it isn't over."""


class Jobs:
    """Starts jobs and finds them again. Thread-safe; one at a time for a folder.

    When there is room, the next job is of the command that has the fewest running jobs; of several, the one that was
    asked for first. So a person's job does not wait until the snapshots of all stores are there.

    All that it knows is in files. So another one that takes over goes on with the same jobs: it finds running ones, and
    starts those that are queued. One whose files are damaged is lost. Jobs that change apps never wait.

    Args:
        root: the folder of all jobs, made if it is not there.
        environment: the variables of the jobs.
        at_once: how many run at the same time; others wait.
        clock: for their times.
        command: the command line of `storekeeper ARGUMENTS`.
    """

    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str],
        *,
        at_once: int,
        clock: Clock,
        command: Callable[..., Sequence[str]] = storekeeper_command,
    ) -> None:
        self._root = root
        self._environment = environment
        self._at_once = at_once
        self._clock = clock
        self._command = command
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        private_folder(root)
        for folder in list(folders(root)):
            _mend(folder)
        self._open = [found for found in reversed(self.all()) if not found.state().is_over]

    def put(self, name: str, request: JobRequest) -> tuple[JobFolder, bool]:
        """The job of that id, and whether it is new. A job that is there is never started again.

        Raises:
            JobConflictError: there is one with other arguments.
            InvalidNameError: the id can't be one.
        """
        folder = JobFolder(self._root / checked_name(name))
        with self._lock:
            made = JobFolder.made(folder.path, request)
            if made:
                self._open.append(folder)
                _log.info("job_asked_for", job=name, arguments=request.arguments, caller=request.caller)
            elif not folder.request.is_like(request):
                msg = f"job {name} has other arguments: {' '.join(folder.request.arguments)}. Choose another id"
                raise JobConflictError(msg)
        self.advance()
        return folder, made

    def get(self, name: str) -> JobFolder:
        """The job of that id.

        Raises:
            UnknownJobError: there is none.
            InvalidNameError: the id can't be one.
        """
        folder = JobFolder(self._root / checked_name(name))
        if not folder.path.is_dir():
            msg = f"there is no job {name}: it was never asked for, or it was collected"
            raise UnknownJobError(msg)
        return folder

    def all(self) -> list[JobFolder]:
        """All jobs that are there, the newest first."""
        found: list[tuple[int, JobFolder]] = []
        for folder in folders(self._root):
            with contextlib.suppress(FileNotFoundError):  # somebody has collected it meanwhile
                found.append((folder.asked_at_ns(), folder))
        return [folder for _, folder in sorted(found, key=itemgetter(0), reverse=True)]

    def cancel(self, name: str, reason: str = "") -> JobFolder:
        """Begins to end a job, and keeps a queued one from starting. Raises what `get` raises."""
        folder = self.get(name)
        folder.cancel(reason)
        _log.info("job_cancelled", job=name, reason=reason)
        self.advance()
        return folder

    def forget(self, name: str) -> None:
        """Removes a job that is over, so that its id is free again. Raises what `get` raises.

        Raises:
            JobConflictError: it isn't over.
        """
        folder = self.get(name)
        if not folder.state().is_over:
            msg = f"job {name} is {folder.state()}: cancel it first, or wait for its end"
            raise JobConflictError(msg)
        # A half-removed folder must not look like a job.
        gone = folder.path.with_name(f".{name}.gone")
        with self._lock:
            process = self._processes.pop(name, None)
            if process is not None:
                process.wait()  # it has recorded its end, and does nothing more
            self._open = [other for other in self._open if other != folder]
            with contextlib.suppress(FileNotFoundError):
                folder.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def advance(self) -> None:
        """Starts queued jobs as long as there is room."""
        with self._lock:
            self._open = [folder for folder in self._open if not self._is_over(folder)]
            running = [folder for folder in self._open if self._is_running(folder)]
            waiting = [folder for folder in self._open if folder not in running]
            for folder in filter(_is_urgent, waiting):
                self._start(folder)
            busy = Counter(_command_of(folder) for folder in running if not _is_urgent(folder))
            queued = [folder for folder in waiting if not _is_urgent(folder)]
            while queued and busy.total() < self._at_once:
                folder = min(queued, key=lambda each: busy[_command_of(each)])
                queued.remove(folder)
                busy[_command_of(folder)] += 1
                self._start(folder)

    def forget_old(self) -> None:
        """Removes jobs that ended more than a week ago."""
        for folder in self.all():
            ended = folder.ended
            if ended is not None and ended["ended_at_ms"] < self._clock.now_ms() - KEPT_MS:
                with contextlib.suppress(StateError):
                    self.forget(folder.path.name)

    def _is_over(self, folder: JobFolder) -> bool:
        if not folder.path.is_dir():
            return True
        state = folder.state()
        if state is JobState.QUEUED and folder.cancel_reason is not None and not self._has_process(folder):
            write_end(folder.path, CANCELLED, None)
            return True
        return state.is_over

    def _is_running(self, folder: JobFolder) -> bool:
        return self._has_process(folder) or folder.state() is JobState.RUNNING

    def _has_process(self, folder: JobFolder) -> bool:
        """Whether a process that this one has started for the job lives. It is waited for if it has ended."""
        process = self._processes.get(folder.path.name)
        if process is None:
            return False
        if process.poll() is None:
            return True
        del self._processes[folder.path.name]
        return False

    def _start(self, folder: JobFolder) -> None:
        request = folder.request
        command = self._command(*request.arguments, "--output", "json")
        self._processes[folder.path.name] = subprocess.Popen(
            [sys.executable, job_process.__file__, str(folder.path), str(request.timeout_s), *command],
            env={**self._environment, JOB_MARKER: str(folder.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # whatever ends this process leaves the job alone
        )
        _log.info("job_started", job=folder.path.name)


def _mend(folder: JobFolder) -> None:
    """Sets a job aside whose request is damaged, and records one as lost if nobody can read how far it got."""
    damaged = folder.damaged()
    if "job" in damaged:
        aside = folder.path.with_name(f".{folder.path.name}.damaged")
        shutil.rmtree(aside, ignore_errors=True)
        folder.path.rename(aside)
        _log.error("job_set_aside", job=folder.path.name, damaged=damaged, folder=str(aside))
    elif damaged:
        for name in damaged:
            (folder.path / name).unlink()
        write_end(folder.path, LOST, None)
        _log.error("job_lost", job=folder.path.name, damaged=damaged)


def _command_of(folder: JobFolder) -> str:
    return folder.request.arguments[0]


def _is_urgent(folder: JobFolder) -> bool:
    return _command_of(folder) == _URGENT
