"""Checks the free disk space before a start, and reports a full disk in one sentence."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from storekeeper.ops.errors import DiskSpaceError

_MIB = 1024 * 1024

ROOM_MB = 2048
"""What a platform needs for its first hours: topics, tables and logs."""
LEAST_MB = 64
"""With less than this the broker, Spark and SQLite fail, each with another error: the disk counts as full."""


def free_mb(folder: Path) -> int:
    """Free MiB on the file system of `folder` or, while that doesn't exist, of its nearest existing parent."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free // _MIB


def check_room(folder: Path) -> None:
    """Checks that what the platform would start has room.

    Raises:
        DiskSpaceError: less than `ROOM_MB` are free.
    """
    free = free_mb(folder)
    if free < ROOM_MB:
        raise DiskSpaceError(
            f"Only {free} MB of disk are free under {folder}: free at least {ROOM_MB} MB, "
            "or point STOREKEEPER_RUN_DIR to another disk."
        )


def little_room(folder: Path) -> str:
    """What to add to the word that all is well: that nothing could be started again, or nothing if it could."""
    free = free_mb(folder)
    return f", but only {free} MB of disk are free under {folder}" if free < ROOM_MB else ""


def check_not_full(folder: Path) -> None:
    """Checks, during a wait, that a full disk isn't the cause.

    Raises:
        DiskSpaceError: less than `LEAST_MB` are free.
    """
    if free_mb(folder) < LEAST_MB:
        raise full_disk(folder)


def is_full(error: OSError) -> bool:
    """Whether an error of the operating system means that the disk or the quota is used up."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def full_disk(folder: Path) -> DiskSpaceError:
    """The error to show for a disk that ran full under `folder`."""
    return DiskSpaceError(
        f"The disk under {folder} is full: free some space and run the command again; what was written is kept."
    )
