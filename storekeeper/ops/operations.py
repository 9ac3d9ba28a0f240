"""Operations on a run directory: one at a time, and clean-ups that a second Ctrl-C doesn't cut short."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storekeeper.ops.errors import AlreadyRunningError


@contextmanager
def exclusive(path: Path, operation: str) -> Iterator[None]:
    """Holds the lock file `path` while the block runs. The kernel releases it even after a `kill -9`.

    Raises:
        AlreadyRunningError: another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 100, 0).decode("utf-8", "replace").strip() or "Another operation"
            msg = f"{holder} is working on {path.parent}: wait until it has finished, then try again."
            raise AlreadyRunningError(msg) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"`storekeeper {operation}` (process {os.getpid()})\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignores INT and TERM while the block runs, so that no process is left. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
