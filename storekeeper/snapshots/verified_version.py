"""Which version of a table its newest snapshot vouches for.

SQL reads the newest version. It is the newest snapshot if its own commit has a manifest, or if every
commit since only compacted files or changed settings of the table. Any other commit, such as an UPDATE by hand, is
refused here: by verification, by the next snapshot, by seeds, checks, clean-ups of files, and nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from deltalake import DeltaTable

from storekeeper.delta_files import is_table
from storekeeper.locations import Location
from storekeeper.snapshots.damage import damaged, open_table
from storekeeper.snapshots.delta_log import Commit, commits
from storekeeper.snapshots.manifest import SnapshotManifest

_FILE_ACTIONS = ("add", "remove")
_HARMLESS = {"commitInfo", "metaData"}


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """The newest version of a table, and the manifest of the snapshot that it holds."""

    version: int
    manifest: SnapshotManifest


def newest_snapshot(path: Location) -> SnapshotManifest | None:
    """The manifest of the newest snapshot at `path`; None if there is none. Raises as `verified_version`."""
    verified = verified_version(path)
    return None if verified is None else verified.manifest


def verified_version(path: Location) -> VerifiedVersion | None:
    """The newest version of the table at `path`; None if there is no table, or one that never held a snapshot.

    Raises:
        SnapshotDamagedError: the log is damaged, or a commit behind the newest snapshot changed what the table shows.
    """
    if not is_table(path):
        if path.is_dir() and any(path.iterdir()):
            raise damaged(path, f"has no Delta log: {path} holds other files")
        return None
    since: list[Commit] = []
    for commit in commits(path):
        if (manifest := commit.manifest) is not None:
            _check_harmless(path, manifest, since)
            version = since[0].version if since else commit.version
            _check_newest(path, version)
            return VerifiedVersion(version, manifest)
        since.append(commit)
    return None


def _check_harmless(path: Location, manifest: SnapshotManifest, since: list[Commit]) -> None:
    for commit in reversed(since):
        why = _change(commit)
        if why is not None:
            what = commit.info.get("operation", "an unknown operation")
            snapshot = f"its last snapshot is version {manifest.delta_version}"
            raise damaged(path, f"was changed by something else: version {commit.version} ({what}) {why}; {snapshot}")
    if any(name == "metaData" for commit in since for name, _ in commit.actions):
        _check_same_columns(path, manifest.delta_version, since[0].version)


def _change(commit: Commit) -> str | None:
    """How a commit changes the table's content; None if it only compacts files or changes settings."""
    changed = {
        kind: sum(name == kind and content.get("dataChange") is not False for name, content in commit.actions)
        for kind in _FILE_ACTIONS
    }
    if any(changed.values()):
        return f"adds {changed['add']} and removes {changed['remove']} files with other rows"
    unknown = {name for name, _ in commit.actions} - changed.keys() - _HARMLESS
    return f"has the actions {', '.join(sorted(unknown))}" if unknown else None


def _check_same_columns(path: Location, before: int, version: int) -> None:
    tables = [open_table(path, number) for number in (before, version)]
    shown = [(_columns(table), table.metadata().partition_columns) for table in tables]
    if shown[0] != shown[1]:
        raise damaged(path, f"has other columns since its last snapshot, version {before}")


def _columns(table: DeltaTable) -> list[dict[str, Any]]:
    """The columns without their comments, which say nothing about rows."""
    columns: list[dict[str, Any]] = orjson.loads(table.schema().to_json())["fields"]
    for column in columns:
        column.get("metadata", {}).pop("comment", None)
    return columns


def _check_newest(path: Location, version: int) -> None:
    """Checks that readers see `version` or a later commit as the newest: a damaged log may mislead them."""
    shown = open_table(path).version()
    if shown < version or not (path / "_delta_log" / f"{shown:020}.json").exists():
        raise damaged(path, f"has the commits up to {version}, and readers see version {shown}")
