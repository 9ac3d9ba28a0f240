"""The running restores of tasks: each worker process writes a file, and the driver reads all files."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from storekeeper.apps.settings import AppSettings
from storekeeper.whole_files import write_whole

_EVERY_S = 0.5
_SILENT_S = 60
"""An older report is a leftover of a killed process."""


@dataclass(frozen=True, slots=True)
class Restoring:
    """A store partition that is being restored.

    Attributes:
        store, partition: which one.
        done, total: offsets of its changelog; while a table is compared with its seal and then loaded in their place,
            as large a share of them.
        eta_s: the remaining seconds at the rate so far.
        awaits: the changelog whose open transaction must end before the restore can begin; else empty.
    """

    store: str
    partition: int
    done: int
    total: int
    eta_s: float = 0.0
    awaits: str = ""


def restore_dir(settings: AppSettings, app: str) -> Path:
    """Where an app's tasks report what they restore."""
    return settings.generation_dir(app) / "restoring"


@contextlib.contextmanager
def reporting(folder: Path) -> Iterator[Callable[[Restoring], None]]:
    """Yields a function that reports the progress of this process's restores. The report is deleted at the end."""
    file = folder / f"{socket.gethostname()}-{os.getpid()}.json"
    began_s, last_s, wrote = time.monotonic(), 0.0, False

    def report(restored: Restoring) -> None:
        nonlocal last_s, wrote
        now_s = time.monotonic()
        if now_s - last_s < _EVERY_S or (restored.done >= restored.total and not restored.awaits):
            return
        eta_s = (now_s - began_s) * (restored.total - restored.done) / max(restored.done, 1)
        write_whole(file, orjson.dumps(asdict(replace(restored, eta_s=round(eta_s, 1)))), private=True)
        last_s, wrote = now_s, True

    try:
        yield report
    finally:
        if wrote:
            file.unlink(missing_ok=True)


def restores(folder: Path) -> list[Restoring]:
    """The running restores. A file that disappears before it is read belongs to a finished restore."""
    running = []
    for file in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            if time.time() - file.stat().st_mtime < _SILENT_S:
                running.append(Restoring(**orjson.loads(file.read_bytes())))
    return running
