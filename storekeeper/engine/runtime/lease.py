"""One running copy of an app at a time, without a leftover JVM of the previous copy.

The lease is a lock on a file, which the system frees when its holder dies, however it dies. But a killed driver's JVM
lives on for seconds and may still write. So the file's content names the holder's JVM, and the next holder waits for
that JVM to end, or ends it, before it begins: {"pid", "jvm_pid", "jvm_started_at_s"}.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson
import psutil
import structlog

from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import Clock, SystemClock

TIMEOUT_S = 30.0
"""How long a starting app waits for its previous copy to end: a batch may have to be drained."""
_PAUSE_S = 0.1
_JVM_END_S = 10.0
# Start times are derived from the clock, which may have been corrected since.
_SAME_START_S = 2.0

_log = structlog.get_logger(__name__)


def job_lease(of: str, job: str) -> str:
    """The name of the lease of a job on an app, a store or a table. No app has such a name, which its own lease has."""
    return f"{of}@{job}"


class Lease:
    """The right to run, held from `acquire` to `release` or to the death of this process. Not thread-safe."""

    def __init__(self, path: Path, *, clock: Clock, wait: Callable[[float], object]) -> None:
        self._path = path
        self._clock = clock
        self._wait = wait
        self._file: int | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self._path.stem

    def acquire(self, timeout_s: float | None = None) -> None:
        """Takes the lease. Waits at most `timeout_s` for its holder, then for the leftover JVM of a dead holder to end.

        Raises:
            AppRunningError: another process holds it, or the leftover JVM can't be ended.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock(file, TIMEOUT_S if timeout_s is None else timeout_s)
            self._end_previous_jvm(_content(file))
        except BaseException:
            os.close(file)
            raise
        self._file = file
        self._write({"pid": os.getpid()})

    def record_jvm(self, pid: int | None) -> None:
        """Records the JVM that works for this holder; None: there is none of its own."""
        if pid is not None:
            self._write({"pid": os.getpid(), "jvm_pid": pid, "jvm_started_at_s": psutil.Process(pid).create_time()})

    def release(self) -> None:
        """Gives the lease back. The JVM must have ended. Safe to call twice."""
        if self._file is not None:
            self._write({})
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _lock(self, file: int, timeout_s: float) -> None:
        deadline = self._clock.monotonic_s() + timeout_s
        has_warned = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic_s() >= deadline:
                    raise AppRunningError(
                        f"{self.name} is running already, as process {_content(file).get('pid')}: "
                        "stop it first, or leave it running"
                    ) from None
                if not has_warned:
                    _log.warning("waiting", behind=f"process {_content(file).get('pid')}", lease=self.name)
                    has_warned = True
                self._wait(_PAUSE_S)
            else:
                return

    def _end_previous_jvm(self, previous: dict[str, float]) -> None:
        jvm = _same_process(previous.get("jvm_pid"), previous.get("jvm_started_at_s"))
        if jvm is None:
            return
        _log.warning("previous_jvm_alive", lease=self.name, jvm_pid=jvm.pid)
        if not self._ended(jvm):
            _log.warning("previous_jvm_killed", lease=self.name, jvm_pid=jvm.pid)
            with contextlib.suppress(psutil.NoSuchProcess):
                jvm.kill()
            if not self._ended(jvm):
                msg = f"process {jvm.pid}, left behind by {self.name}, can't be ended: end it, then start again"
                raise AppRunningError(msg)

    def _ended(self, process: psutil.Process) -> bool:
        deadline = self._clock.monotonic_s() + _JVM_END_S
        while _alive(process):
            if self._clock.monotonic_s() >= deadline:
                return False
            self._wait(_PAUSE_S)
        return True

    def _write(self, content: dict[str, float]) -> None:
        if self._file is None:
            raise RuntimeError("the lease is not held")
        # In place: the lock belongs to the open file, not to its name.
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, orjson.dumps(content), 0)


@contextmanager
def job_held(
    of: str, job: str, settings: AppSettings, *, wait: Callable[[float], object] = time.sleep
) -> Iterator[Lease]:
    """Holds the lease of a job: no other one of the same name works on the same thing meanwhile.

    Raises:
        AppRunningError: the leftover JVM of a dead holder can't be ended.
    """
    with jobs_held([job_lease(of, job)], settings, SystemClock(), wait=wait) as (lease,):
        yield lease


@contextmanager
def jobs_held(
    names: Sequence[str], settings: AppSettings, clock: Clock, *, wait: Callable[[float], object] = time.sleep
) -> Iterator[list[Lease]]:
    """Holds leases of jobs. Waits for their holders as long as it takes: the caller decides how long a job may take.
    `wait` waits between two looks.

    Raises:
        AppRunningError: the leftover JVM of a dead holder can't be ended.
    """
    with ExitStack() as stack:
        leases = []
        # In one order for all, so that no two wait for each other.
        for name in sorted(set(names)):
            lease = stack.enter_context(Lease(settings.lease_file(name), clock=clock, wait=wait))
            lease.acquire(math.inf)
            leases.append(lease)
        yield leases


def _content(file: int) -> dict[str, float]:
    try:
        content = orjson.loads(os.pread(file, 4096, 0))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _alive(process: psutil.Process) -> bool:
    try:
        # A zombie does nothing any more, and stays until its parent reaps it.
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _same_process(pid: float | None, started_at_s: float | None) -> psutil.Process | None:
    """The process that had this pid at that time, if it is alive; never a newer process with the same pid."""
    if pid is None or started_at_s is None:
        return None
    try:
        process = psutil.Process(int(pid))
        return process if abs(process.create_time() - started_at_s) < _SAME_START_S else None
    except psutil.Error:
        return None
