"""One operation at a time on a run directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import AlreadyRunningError


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
            msg = f"{holder} is at work on {path.parent}: wait until it has finished, then try again."
            raise AlreadyRunningError(msg) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"`storekeeper {operation}` (process {os.getpid()})\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
