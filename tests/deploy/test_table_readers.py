"""A run directory is mended: private, but for the tables that a group may read."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest

from deploy.table_readers import mend_modes
from state.errors import ConfigurationError
from tests.readable import open_to_others, reached_by, some_group


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
    mend_modes(root, root / "delta", None)
    assert open_to_others(root) == set()
    assert stat.S_IMODE(root.parent.stat().st_mode) == before, "a link is not followed"


def test_a_group_may_read_the_tables_and_nothing_else(root: Path) -> None:
    group = some_group()
    mend_modes(root, root / "delta", group.gr_name)
    (root / "delta" / "t" / "day=2").mkdir()
    (root / "delta" / "t" / "day=2" / "part").touch()  # new ones, too
    (root / "logs" / "b.log").touch(0o644)  # in a folder that nobody may enter
    tables = {root / "delta", *(root / "delta").rglob("*")}
    assert reached_by(root, group.gr_gid) == tables
    assert stat.S_IMODE(root.stat().st_mode) == 0o710
    mend_modes(root, root / "delta", None)
    (root / "delta" / "t" / "day=2" / "later").touch(0o600)
    assert open_to_others(root / "delta") == set()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["no-such-group-here", grp.getgrgid(os.getegid()).gr_name])
def test_a_group_that_can_not_be_is_refused(root: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="STOREKEEPER_TABLES_GROUP"):
        mend_modes(root, root / "delta", name)
