"""Files that are replaced in one step: a reader sees the old content or the complete new content.

The new content is written to a draft beside the file, `.<name>.<pid>.new`. A writer that is killed leaves its draft
behind. Each process removes such drafts from a folder when it first writes there.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_DRAFT = re.compile(r"\..+\.(\d{1,9})\.new")
_STALE_S = 3600
"""No write takes so long. Another machine or container may write to the folder, and its processes aren't seen here."""


def write_whole(path: Path, data: bytes, *, private: bool = False, durable: bool = False) -> None:
    """Writes a file, replacing an existing one in one step; makes its folder if needed.

    Args:
        path: the file.
        data: its new content.
        private: whether it is for its owner alone, from its first byte on, and a folder made for it as well.
        durable: whether to wait until it would survive a crash of the machine.
    """
    made = [folder for folder in path.parents if not folder.exists()] if durable else []
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _remove_stale_drafts(path.parent)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
        if durable:
            for folder in {path.parent, *(folder.parent for folder in made)}:
                _sync_folder(folder)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@lru_cache(maxsize=256)
def _remove_stale_drafts(folder: Path) -> None:
    """Removes the drafts of dead writers from a folder in which a file was just made: its own time is now."""
    with suppress(OSError):
        now_s = folder.stat().st_mtime
        for file in folder.iterdir():
            match = _DRAFT.fullmatch(file.name)
            if match and now_s - file.lstat().st_mtime > _STALE_S and not _is_alive(int(match[1])):
                file.unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Waits until the names of a folder's files are on disk: a crash could undo a rename after its file is synced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
