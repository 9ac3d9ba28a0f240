"""Room on the disk."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from storekeeper.ops import disk
from storekeeper.ops.disk import check_not_full, check_room, free_mb, is_full
from storekeeper.ops.errors import DiskSpaceError


def test_a_folder_that_is_not_there_yet_counts_as_its_parent(tmp_path: Path) -> None:
    assert abs(free_mb(tmp_path / "a" / "b") - free_mb(tmp_path)) < 100


def test_too_little_room_names_the_folder_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "ROOM_MB", 0)
    check_room(tmp_path)
    monkeypatch.setattr(disk, "ROOM_MB", 10**9)
    with pytest.raises(DiskSpaceError, match=rf"under {tmp_path}: free at least 1000000000 MB, or point STOREKEEPER"):
        check_room(tmp_path)


@pytest.mark.parametrize(("free_bytes", "full"), [(0, True), (63 * 1024**2, True), (64 * 1024**2, False)])
def test_a_disk_is_full_before_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, full: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    if not full:
        check_not_full(tmp_path)
        return
    with pytest.raises(DiskSpaceError, match="is full: free some space"):
        check_not_full(tmp_path)


def test_only_a_lack_of_room_is_one() -> None:
    assert is_full(OSError(errno.ENOSPC, ""))
    assert is_full(OSError(errno.EDQUOT, ""))
    assert not is_full(OSError(errno.EACCES, ""))
