"""Permissions of a run directory: nobody but its owner, and who is on an access list of the administrator's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_ACCESS_LIST = "system.posix_acl_access"
_OWNER, _OWNER_AND_LISTED = 0o700, 0o770


def mend_modes(root: Path) -> None:
    """Takes the rights of others from everything in a run directory.

    A file with an access list keeps the rights of those on it: its bits of the group are the mask of the list.
    """
    for path, mode in _everything(root):
        kept = _OWNER_AND_LISTED if _has_access_list(path) else _OWNER
        if mode & 0o777 & ~kept:
            path.chmod(mode & kept)


def _everything(root: Path) -> Iterator[tuple[Path, int]]:
    """The root, and all folders and files below it, with their modes. Links are not followed."""
    yield root, root.lstat().st_mode
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode):
                yield path, mode


def _has_access_list(path: Path) -> bool:
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except (OSError, AttributeError):  # not every system has them
        return False
