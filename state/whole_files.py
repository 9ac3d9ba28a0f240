"""Files that are replaced in one step: a reader sees the old content or the complete new content."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes, *, private: bool = False, durable: bool = False) -> None:
    """Writes a file, replacing an existing one in one step; makes its folder if needed.

    Args:
        path: the file.
        data: its new content.
        private: whether it is for its owner alone, from its first byte on, and a folder made for it as well.
        durable: whether to wait until it would survive a crash of the machine.
    """
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
        if durable:
            _sync_folder(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Waits until the names of a folder's files are on disk: a crash could undo a rename after its file is synced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
