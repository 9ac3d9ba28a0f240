"""Permissions of a run directory: its owner may read everything, and a named group the Delta tables."""

from __future__ import annotations

import errno
import grp
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from state.errors import ConfigurationError

_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
_OWNER, _OWN_GROUP, _GROUP, _MASK, _OTHER = 0x01, 0x04, 0x08, 0x10, 0x20
_NOBODY = 0xFFFFFFFF
_READ_ENTER, _READ, _ENTER = 0o5, 0o4, 0o1


def mend_modes(root: Path, tables: Path, group: str | None) -> None:
    """Makes everything in a run directory private, and the tables readable for a group. Nothing may run in it.

    A table's new files follow their folder's default access list, whichever user writes them.

    Args:
        root: the run directory.
        tables: the folder in it that holds the Delta tables.
        group: the name of the group that may read them; None: nobody but the owner.

    Raises:
        ConfigurationError: the group can't be used, or the file system has no access lists.
    """
    gid = None if group is None else _group_id(group)
    for path, mode in _everything(root):
        if path.is_relative_to(tables):
            _share(path, mode, gid)
        elif mode & 0o077:
            path.chmod(mode & 0o700)
    _set(root, _ACCESS, None if gid is None else _access_list(0o7, gid, _ENTER))
    if gid is None:
        root.chmod(0o700)


def _everything(root: Path) -> Iterator[tuple[Path, int]]:
    """All folders and files below the root, which is left out, with their modes. Links are not followed."""
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode):
                yield path, mode


def _share(path: Path, mode: int, gid: int | None) -> None:
    if stat.S_ISDIR(mode):
        wanted = None if gid is None else _access_list(0o7, gid, _READ_ENTER)
        _set(path, _DEFAULT, wanted)
    else:
        wanted = None if gid is None else _access_list(0o6, gid, _READ)
    _set(path, _ACCESS, wanted)
    if gid is None and mode & 0o077:
        path.chmod(mode & 0o700)


def _access_list(owner: int, gid: int, group: int) -> bytes:
    """A POSIX access list as Linux keeps it: the owner's rights, the group's, and none for others."""
    entries = ((_OWNER, owner, _NOBODY), (_OWN_GROUP, 0, _NOBODY), (_GROUP, group, gid), (_MASK, group, _NOBODY))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in (*entries, (_OTHER, 0, _NOBODY)))


def _set(path: Path, attribute: str, value: bytes | None) -> None:
    try:
        if value is not None:
            os.setxattr(path, attribute, value)
        elif attribute in os.listxattr(path):
            os.removexattr(path, attribute)
    except (OSError, AttributeError) as error:  # not every system has access lists
        if value is None:
            return
        cause = os.strerror(error.errno or errno.ENOTSUP) if isinstance(error, OSError) else "no access lists"
        msg = f"the file system of {path} can't give a group its tables ({cause}): unset STOREKEEPER_TABLES_GROUP"
        raise ConfigurationError(msg) from error


def _group_id(name: str) -> int:
    try:
        found = grp.getgrnam(name).gr_gid
    except KeyError:
        msg = f"there is no group {name!r}: correct STOREKEEPER_TABLES_GROUP"
        raise ConfigurationError(msg) from None
    if found == os.getegid():
        msg = f"STOREKEEPER_TABLES_GROUP names {name!r}, the platform's own group: name one of the readers"
        raise ConfigurationError(msg)
    return found
