"""Private folders and files: made for their owner alone, and refused or mended if they are not."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storekeeper.errors import ConfigurationError

_ACCESS_LIST = "system.posix_acl_access"
_OWNER, _OWNER_AND_LISTED = 0o700, 0o770
_OTHERS = 0o077
_MAY_PASS = 0o010
"""A folder on the way to tables that a group reads has this bit: users may pass through it and can't list it."""
_LONGEST_BYTES = 1 << 20


def private_folder(path: Path) -> None:
    """Makes a folder that nobody else can look into, or makes an existing one private.

    Raises:
        ConfigurationError: there is a link, a file or somebody else's folder, or the folder can't be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.mkdir(mode=_OWNER, exist_ok=True)
        with _opened(path, f"the folder {path}", os.O_DIRECTORY | os.O_NOFOLLOW) as descriptor:
            status = os.fstat(descriptor)
            _check_owner(status, f"the folder {path}")
            if status.st_mode & _OTHERS & ~_MAY_PASS:
                os.fchmod(descriptor, _OWNER)
    except OSError as error:
        msg = f"can't make the folder {path} ({error.strerror}): name another, or let this user write there"
        raise ConfigurationError(msg) from error


def read_secret(path: Path, what: str) -> bytes:
    """The content of a private file of at most 1 MiB. Never blocks, whatever kind of file it is. An error names it as
    `what`, such as `the tokens`.

    Raises:
        FileNotFoundError: there is no file.
        ConfigurationError: it is a link or no regular file, others own it or may read or write it, it is longer, or it
            can't be read.
    """
    with _opened(path, f"{what} {path}", os.O_NOFOLLOW) as descriptor:
        _check_regular(os.fstat(descriptor), f"{what} {path}")
        _check_private(os.fstat(descriptor), f"{what} {path}")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(_LONGEST_BYTES + 1)
    if len(content) > _LONGEST_BYTES:  # cut off, its first part may be valid and mean something else
        raise ConfigurationError(f"{what} {path} is longer than 1 MiB: name a file that holds nothing else")
    return content


def check_secret(path: Path, what: str) -> None:
    """Checks a file as `read_secret` does, for a library that reads it by itself. Raises the same errors."""
    with _opened(path, f"{what} {path}", os.O_NOFOLLOW) as descriptor:
        _check_regular(os.fstat(descriptor), f"{what} {path}")
        _check_private(os.fstat(descriptor), f"{what} {path}")


def check_regular(path: Path, what: str) -> None:
    """Checks that a public file, such as a certificate, is one that can be read at once. It may be a link.

    Raises:
        FileNotFoundError: there is no file.
        ConfigurationError: it is not a regular file, or it can't be read.
    """
    with _opened(path, f"{what} {path}", 0) as descriptor:
        _check_regular(os.fstat(descriptor), f"{what} {path}")


def mend_modes(root: Path) -> None:
    """Takes the rights of others from everything in a folder.

    A file with an access list keeps the rights of those on it: its bits of the group are the mask of the list.
    """
    for path, mode in _everything(root):
        kept = _OWNER_AND_LISTED if _has_access_list(path) else _OWNER
        if mode & 0o777 & ~kept:
            path.chmod(mode & kept)


@contextmanager
def _opened(path: Path, what: str, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink() and error.errno in {errno.ELOOP, errno.ENOTDIR}:
            msg = f"{what} is a symbolic link: put what it leads to in its place, or name that"
        else:
            msg = f"can't read {what} ({error.strerror}): name a file or folder that this user can read"
        raise ConfigurationError(msg) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_regular(status: os.stat_result, what: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{what} is not a regular file: name one")


def _check_private(status: os.stat_result, what: str) -> None:
    _check_owner(status, what)
    if stat.S_IMODE(status.st_mode) & _OTHERS:
        raise ConfigurationError(f"others can read or write {what}: run `chmod 600` on it")


def _check_owner(status: os.stat_result, what: str) -> None:
    if status.st_uid not in {os.geteuid(), 0}:
        raise ConfigurationError(f"{what} belongs to another user (id {status.st_uid}): use one of your own")


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
