"""What others than its owner may do in a folder, as the kernel sees it: modes, and access lists."""

from __future__ import annotations

import grp
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

_OWNER, _OWN_GROUP, _GROUP, _MASK, _OTHER = 0x01, 0x04, 0x08, 0x10, 0x20
_NOBODY = 0xFFFFFFFF
_ACCESS, _DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def some_group() -> grp.struct_group:
    """A group that this process doesn't run as."""
    return next(group for group in grp.getgrall() if group.gr_gid != os.getegid())


def let_read_tables(root: Path, tables: Path, gid: int) -> None:
    """What the how-to does by `setfacl`: a group may enter a run directory, and read the tables, new files too."""
    os.setxattr(root, _ACCESS, _access_list(0o7, gid, 0o1))
    for path in (tables, *tables.rglob("*")):
        if path.is_dir():
            os.setxattr(path, _ACCESS, _access_list(0o7, gid, 0o5))
            os.setxattr(path, _DEFAULT, _access_list(0o7, gid, 0o5))
        else:
            os.setxattr(path, _ACCESS, _access_list(0o6, gid, 0o4))


def _access_list(owner: int, gid: int, group: int) -> bytes:
    entries = ((_OWNER, owner, _NOBODY), (_OWN_GROUP, 0, _NOBODY), (_GROUP, group, gid), (_MASK, group, _NOBODY))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in (*entries, (_OTHER, 0, _NOBODY)))


def open_to_others(root: Path) -> set[Path]:
    """The files and folders at and below `root` whose mode lets anybody but the owner do anything."""
    return {path for path in (root, *root.rglob("*")) if _mode(path) & 0o077 and not path.is_symlink()}


def reached_by(root: Path, gid: int) -> set[Path]:
    """The files and folders below `root` that members of a group can read, list or change."""
    return set(_reached(root, gid)) if _rights(root, gid) & 0o1 else set()


def _reached(folder: Path, gid: int) -> Iterator[Path]:
    for path in folder.iterdir():
        rights = 0 if path.is_symlink() else _rights(path, gid)
        if rights:
            yield path
        if rights & 0o1 and path.is_dir():
            yield from _reached(path, gid)


def _rights(path: Path, gid: int) -> int:
    own, mode = path.lstat().st_gid == gid, _mode(path)
    if _ACCESS not in os.listxattr(path):
        return mode >> 3 & 0o7 if own else mode & 0o7
    entries = list(struct.iter_unpack("<HHI", os.getxattr(path, _ACCESS)[4:]))
    granted = [bits for tag, bits, of in entries if (tag == _GROUP and of == gid) or (tag == _OWN_GROUP and own)]
    mask = next(bits for tag, bits, _ in entries if tag == _MASK)
    return max(granted) & mask if granted else mode & 0o7


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)
