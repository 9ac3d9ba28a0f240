from __future__ import annotations

import json
from pathlib import Path

import pytest

from storekeeper.delta_files import is_table
from storekeeper.errors import SnapshotDamagedError
from storekeeper.snapshots.delta_log import commits, newest_manifest, read_commit
from tests.snapshot_tables import manifest_of

MANIFEST = manifest_of([])


def log(path: Path, *manifests: str | None) -> Path:
    """A log with a commit for each of them, from version 2 on."""
    (path / "_delta_log").mkdir(parents=True)
    for version, manifest in enumerate(manifests, start=2):
        info = {"commitInfo": {"operation": "WRITE", "userMetadata": manifest}}
        (path / "_delta_log" / f"{version:020}.json").write_text(f"{json.dumps(info)}\n")
    return path


def test_the_newest_manifest_is_found_behind_commits_without_one(tmp_path: Path) -> None:
    path = log(tmp_path / "t", MANIFEST.to_json(), MANIFEST.to_json(), None, "by hand")
    found = newest_manifest(path)
    assert found is not None
    assert found.delta_version == 3, "the commit says which version it is"
    before = newest_manifest(path, before=3)
    assert before is not None
    assert before.delta_version == 2
    assert newest_manifest(path, before=2) is None
    assert not is_table(tmp_path)
    assert newest_manifest(tmp_path) is None


def test_commits_come_newest_first_and_none_may_be_missing_or_unreadable(tmp_path: Path) -> None:
    path = log(tmp_path / "t", MANIFEST.to_json(), MANIFEST.to_json(), None)
    assert [commit.version for commit in commits(path)] == [4, 3, 2]
    middle = path / "_delta_log" / f"{3:020}.json"
    for damage in ("", "\n", '{"commitInfo"', "[]"):
        middle.write_text(damage)
        assert read_commit(middle) is None
        with pytest.raises(SnapshotDamagedError, match=rf"empty or torn commit file: {middle}"):
            list(commits(path))
        found = newest_manifest(path)
        assert found is not None
        assert found.delta_version == 2, "it is passed over"
    middle.unlink()
    assert read_commit(middle) is None
    with pytest.raises(SnapshotDamagedError, match="has lost its commit 3"):
        list(commits(path))
