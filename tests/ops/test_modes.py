"""A run directory is mended: private, but for those on an access list of its tables."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from storekeeper.ops.modes import mend_modes
from tests.readable import let_read_tables, open_to_others, reached_by, some_group


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run directory as an earlier version with a usual umask left it."""
    root = tmp_path / "run"
    for name in ("logs/a.log", "delta/t/_delta_log/0.json", "delta/t/day=1/part"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch(0o644)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (root / "link").symlink_to(tmp_path)
    return root


def test_what_others_could_read_is_mended(root: Path) -> None:
    before = stat.S_IMODE(root.parent.stat().st_mode)
    mend_modes(root)
    assert open_to_others(root) == set()
    assert stat.S_IMODE(root.parent.stat().st_mode) == before, "a link is not followed"


def test_a_group_on_the_access_list_of_the_tables_reads_them_and_nothing_else(root: Path) -> None:
    group = some_group().gr_gid
    let_read_tables(root, root / "delta", group)
    (root / "delta" / "t" / "day=1" / "part").chmod(0o644)
    mend_modes(root)
    (root / "delta" / "t" / "day=2").mkdir()
    (root / "delta" / "t" / "day=2" / "part").touch()  # new ones, too
    (root / "logs" / "b.log").touch(0o644)  # in a folder that nobody may enter
    assert reached_by(root, group) == {root / "delta", *(root / "delta").rglob("*")}
    assert stat.S_IMODE(root.stat().st_mode) == 0o710
    assert reached_by(root, os.getegid()) == set(), "the owner's own group is not on the list"
    assert not [path for path in (root / "delta").rglob("*") if path.stat().st_mode & 0o007]


def test_a_system_without_access_lists_has_private_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "listxattr")
    mend_modes(root)
    assert open_to_others(root) == set()
