"""The jobs of a control process: allowed commands, each a child process. Changes of apps are threads instead.

A job ends with the control process, however that ends. Nothing is lost: a command that is run again continues, or does
nothing. Which job comes when, how often it is tried and how long it may take is the caller's decision. Of two that
must not run at once, one waits for the other's lease.

The allowed commands read or change stores and apps. None takes a path or an address, and none a key to erase.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import psutil
import structlog

from storekeeper.clock import Clock
from storekeeper.errors import InvalidArgumentError, StateError
from storekeeper.names import checked_name
from storekeeper.ops import ends_with_parent
from storekeeper.ops.control.app_actions import ACTIONS, change_app_by_words
from storekeeper.ops.control.problems import JobConflictError, UnknownJobError
from storekeeper.ops.marked_processes import end_processes, mark_of
from storekeeper.private_files import private_folder
from storekeeper.program import ERROR_PREFIX, ExitCode, exit_code_of, storekeeper_command

ALLOWED: Mapping[str, frozenset[str]] = {
    "app": frozenset(ACTIONS),
    "check": frozenset(),
    "cleanup": frozenset({"preview", "run", "undo"}),
    "erase": frozenset(),
    "generation": frozenset({"plan", "seed", "status", "handover", "rollback", "retire"}),
    "quarantine": frozenset({"show", "release", "discard"}),
    "snapshot": frozenset({"create", "restore", "optimize"}),
    "upgrade-nodes": frozenset(),
    "verify": frozenset(),
}
"""The commands, and the subcommands of each; none for a command that has none."""
_NAME_APPS = frozenset({"app", "generation"})
"""Commands that take an app's name. Beyond jobs that may be `module:variable`, which imports a module."""
_TIME = re.compile(r"\d{4}[0-9-][0-9TWZ:., +-]*")
"""A time with a colon, as `--from` takes it: with hyphens or without. No module has such a name."""
_OUTPUT = ("-o", "--output")
_MOST_WORDS = 200
_LONGEST_WORD = 4000
JOB_MARKER = "STOREKEEPER_JOB"
"""Set to the job's folder for every process of the job."""
KEPT = 1000
"""How many ended jobs are kept for those that ask for their results."""
GRACE_S = 20.0
"""How long a cancelled command may take to end after TERM, before it is killed."""
_LOG_BYTES = 1 << 16
_LONGEST_LINE = 1 << 22
_THREADS = 64
_log = structlog.get_logger(__name__)


def check_allowed(arguments: Sequence[str]) -> None:
    """Checks that the arguments are those of an allowed command.

    Raises:
        InvalidArgumentError: they are not.
    """
    if len(arguments) > _MOST_WORDS or any(len(word) > _LONGEST_WORD or "\0" in word for word in arguments):
        msg = f"a job has at most {_MOST_WORDS} arguments, each of at most {_LONGEST_WORD} characters and without NUL"
        raise InvalidArgumentError(msg)
    if any(word.partition("=")[0] in _OUTPUT or word.startswith("-o") for word in arguments):
        raise InvalidArgumentError("a job always answers in JSON: leave --output out")
    subcommands = ALLOWED.get(arguments[0] if arguments else "")
    if subcommands is None:
        msg = f"{' '.join(arguments[:1])[:100]!r} can't run as a job. Jobs are: {', '.join(sorted(ALLOWED))}"
        raise InvalidArgumentError(msg)
    if subcommands and (len(arguments) < 2 or arguments[1] not in subcommands):
        raise InvalidArgumentError(f"`{arguments[0]}` is followed by one of: {', '.join(sorted(subcommands))}")
    if arguments[0] == "erase" and not _runs_a_plan(arguments[1:]):
        raise InvalidArgumentError("a job erases what was planned before, and names no key: `erase STORE --run ID`")
    if arguments[0] in _NAME_APPS and any(map(_may_name_a_module, arguments, arguments[1:])):
        raise InvalidArgumentError("a job names an app by its registered name, without a module")


def _may_name_a_module(before: str, word: str) -> bool:
    """Whether a word may be `module:variable`. Only a time behind `--from` is not: `--from` may be another's value."""
    return ":" in word and (before != "--from" or _TIME.fullmatch(word) is None)


def _runs_a_plan(arguments: Sequence[str]) -> bool:
    """Whether an erasure is one that was planned beforehand: keys and files of keys are for the command line alone."""
    return (
        len(arguments) > 2
        and not arguments[0].startswith("-")
        and arguments[1] == "--run"
        and arguments[3:] in ([], ["--dry-run"])
    )


class JobState(StrEnum):
    """How far a job is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True, eq=False)
class Job:
    """A job, and what it wrote into its folder: `output` and `log`, its standard output and error.

    `cancel_reason` is None unless somebody has cancelled it. `exit_code` is negative after a signal.
    """

    name: str
    arguments: tuple[str, ...]
    caller: str
    folder: Path
    started_at_ms: int
    ended_at_ms: int | None = None
    cancel_reason: str | None = None
    exit_code: int | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    task: asyncio.Task[None] | None = None

    @property
    def is_thread(self) -> bool:
        """Whether it is a change of an app, which runs in a thread of the control process."""
        return self.arguments[0] == "app"

    @property
    def state(self) -> JobState:
        """How far it is."""
        if self.ended_at_ms is None:
            return JobState.RUNNING
        if self.cancel_reason is not None:
            return JobState.CANCELLED
        return JobState.SUCCEEDED if self.exit_code == 0 else JobState.FAILED

    def log_from(self, position: int | None) -> tuple[str, int]:
        """A part of its log, at most 64 KiB, and the position behind it. From `position`, in bytes; None for the end of
        the log.
        """
        return _part(self.folder / "log", position)

    def output_end(self) -> str:
        """The end of its standard output, at most 64 KiB."""
        return _part(self.folder / "output", None)[0]

    def result(self) -> dict[str, Any] | None:
        """The JSON object on the last line of its standard output; None if there is none."""
        try:
            with (self.folder / "output").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_LINE))
                lines = file.read().splitlines()
            found = orjson.loads(lines[-1]) if lines else None
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None


class Jobs:
    """Starts, lists and cancels jobs, in one event loop of the main thread. Ended ones are kept until many others are.

    Args:
        root: the folder of all jobs, which is emptied. What earlier jobs have left running is ended.
        environment: the variables of the jobs.
        clock: for their times.
        command: the command line of `storekeeper ARGUMENTS`.
    """

    def __init__(
        self,
        root: Path,
        environment: Mapping[str, str],
        *,
        clock: Clock,
        command: Callable[..., Sequence[str]] = storekeeper_command,
    ) -> None:
        self._root = root
        self._environment = environment
        self._clock = clock
        self._command = command
        self._jobs: dict[str, Job] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="job")
        private_folder(root)
        end_job_processes(root)
        for folder in filter(Path.is_dir, root.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)

    async def start(self, name: str, arguments: Sequence[str], caller: str) -> tuple[Job, bool]:
        """Starts a job. Returns it, and whether it is new: one of that id that runs is not started again.

        Waits for the end of a job of that id that was cancelled. One that is over is forgotten.

        Raises:
            JobConflictError: it runs with other arguments.
            InvalidNameError: the id can't be one.
        """
        checked_name(name)
        while (found := self._jobs.get(name)) is not None and found.task is not None and not found.task.done():
            if found.arguments != tuple(arguments):
                msg = f"job {name} runs with other arguments: {' '.join(found.arguments)}. Choose another id"
                raise JobConflictError(msg)
            if found.cancel_reason is None:
                return found, False
            await asyncio.wait([found.task])
        self._jobs.pop(name, None)
        job = Job(name, tuple(arguments), caller, self._root / name, self._clock.now_ms())
        shutil.rmtree(job.folder, ignore_errors=True)
        private_folder(job.folder)
        self._forget_old()
        self._jobs[name] = job
        job.task = asyncio.create_task(self._run(job))
        job.task.add_done_callback(lambda _: self._note_end(job))
        _log.info("job_started", job=name, arguments=job.arguments, caller=caller)
        return job, True

    def get(self, name: str) -> Job:
        """The job of that id.

        Raises:
            UnknownJobError: there is none.
        """
        if name not in self._jobs:
            msg = f"there is no job {name}: it was never asked for, or the control process has ended since"
            raise UnknownJobError(msg)
        return self._jobs[name]

    def all(self) -> list[Job]:
        """All jobs, the newest first."""
        return [*reversed(self._jobs.values())]

    def cancel(self, name: str, reason: str = "") -> Job:
        """Begins to end a job. Safe to repeat: the first reason holds. Raises what `get` raises."""
        job = self.get(name)
        if job.ended_at_ms is None and job.cancel_reason is None and job.task is not None:
            job.cancel_reason = reason
            job.cancelled.set()
            if not job.is_thread:
                job.task.cancel()
            _log.info("job_cancelled", job=name, reason=reason)
        return job

    async def end(self) -> None:
        """Cancels all jobs, and waits for their end."""
        for job in self.all():
            self.cancel(job.name, "the control process ends")
        await asyncio.gather(*(job.task for job in self.all() if job.task is not None), return_exceptions=True)
        self._threads.shutdown(wait=False)

    async def _run(self, job: Job) -> None:
        try:
            if job.is_thread:
                job.exit_code = await asyncio.get_running_loop().run_in_executor(self._threads, _run_in_thread, job)
            else:
                job.exit_code = await self._run_process(job)
        except OSError as error:  # a full disk, for example
            _write_error(job, str(error))
            job.exit_code = ExitCode.FAILED

    def _note_end(self, job: Job) -> None:
        job.ended_at_ms = self._clock.now_ms()
        _log.info("job_ended", job=job.name, state=str(job.state), exit_code=job.exit_code)

    async def _run_process(self, job: Job) -> int | None:
        command = self._command(*job.arguments, "--output", "json")
        with (job.folder / "output").open("wb") as output, (job.folder / "log").open("wb") as log:
            # The kernel kills it when this thread, the main one, ends.
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, ends_with_parent.__file__, str(os.getpid()), *command),
                env={**self._environment, JOB_MARKER: str(job.folder)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
            )
        with contextlib.suppress(asyncio.CancelledError):
            await process.wait()
        await _end_group(process)
        return process.returncode

    def _forget_old(self) -> None:
        ended = [job for job in self._jobs.values() if job.ended_at_ms is not None]
        for job in ended[: max(0, len(ended) - KEPT)]:
            del self._jobs[job.name]
            shutil.rmtree(job.folder, ignore_errors=True)


def end_job_processes(folder: Path) -> None:
    """Ends every process that runs for a job, or for any job in a folder of jobs."""
    end_processes([process for process in psutil.process_iter() if _works_for(process, folder)])


def _works_for(process: psutil.Process, folder: Path) -> bool:
    marked = mark_of(process, JOB_MARKER)
    return marked is not None and Path(marked).is_relative_to(folder)


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """Ends the command if it runs, and every child that it left."""
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _run_in_thread(job: Job) -> int:
    try:
        answer = change_app_by_words(job.arguments, job.cancelled, job.folder / "log")
    except StateError as error:
        _write_error(job, str(error))
        return exit_code_of(error)
    except Exception as error:  # whatever a mistake in the program raises: it must not look like a job that runs
        _log.error("job_failed", job=job.name, exc_info=error)
        _write_error(job, f"{type(error).__name__}: {error}")
        return ExitCode.FAILED
    (job.folder / "output").write_bytes(orjson.dumps(answer) + b"\n")
    return ExitCode.DONE


def _write_error(job: Job, message: str) -> None:
    with contextlib.suppress(OSError), (job.folder / "log").open("a", encoding="utf-8") as log:
        log.writelines(f"{ERROR_PREFIX}{line}\n" for line in message.splitlines())


def _part(path: Path, position: int | None) -> tuple[str, int]:
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(min(end, max(0, end - _LOG_BYTES) if position is None else position))
            found = file.read(_LOG_BYTES)
            return found.decode("utf-8", "replace"), file.tell()
    except FileNotFoundError:
        return "", 0
