"""The log of a table of snapshots: the manifests in it, the version that the newest vouches for, its errors.

It is read here file by file: `DeltaTable.history` skips an empty commit file, and then numbers all others
wrongly.

Which version of a table its newest snapshot vouches for.

SQL reads the newest version. It is the newest snapshot if its own commit has a manifest, or if every
commit since only compacted files or changed settings of the table. Any other commit, such as an UPDATE by hand, is
refused here: by verification, by the next snapshot, by seeds, checks, clean-ups of files, and nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.delta_files import commit_files, is_table
from storekeeper.errors import SerializationError, SnapshotDamagedError
from storekeeper.locations import Location, reaching
from storekeeper.snapshots.manifest import SnapshotManifest

_MOST_CHARS = 300


def damaged(path: Location, what: str) -> SnapshotDamagedError:
    """The error that says what is wrong with a table, and how to go on."""
    return SnapshotDamagedError(
        f"table {path.name} {what}. Go back to its last snapshot with `storekeeper snapshot restore {path.name}`. If "
        f"that can't be done, move {path} away, and write a new snapshot: `storekeeper snapshot create {path.name}`"
    )


def unreadable(path: Location, error: BaseException) -> SnapshotDamagedError:
    """The error for a table that its reader can't read, with the first line of the reader's message."""
    return damaged(path, f"can't be read: {str(error).partition(chr(10))[0][:_MOST_CHARS]}")


def open_table(path: Location, version: int | None = None) -> DeltaTable:
    """The table at a version, or the newest.

    Raises:
        SnapshotDamagedError: it can't be read.
        TablesUnreachableError: its store doesn't answer.
    """
    try:
        return delta_table(path, version)
    except (DeltaError, OSError) as error:
        raise unreadable(path, error) from error


def delta_table(path: Location, version: int | None = None) -> DeltaTable:
    """The table at a version, or the newest. It need not hold snapshots.

    Raises:
        DeltaError, OSError: it can't be read; `TableNotFoundError` if there is none.
        TablesUnreachableError: its store doesn't answer.
    """
    with reaching(path):
        return DeltaTable(str(path), version=version)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its version, and its actions, each by its name."""

    version: int
    actions: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def info(self) -> dict[str, Any]:
        """The writer's information on the commit; empty if there is none."""
        return next((content for name, content in self.actions if name == "commitInfo"), {})

    @property
    def manifest(self) -> SnapshotManifest | None:
        """The manifest of the snapshot that the commit made; None if it made none."""
        try:
            manifest = SnapshotManifest.from_json(self.info.get("userMetadata") or "")
        except SerializationError:
            return None
        return replace(manifest, delta_version=self.version)


def commits(path: Location) -> Iterator[Commit]:
    """The table's commits, newest first, as far back as the log reaches.

    Raises:
        SnapshotDamagedError: a commit is missing, empty or torn.
    """
    expected: int | None = None
    for file in sorted(commit_files(path), reverse=True):
        commit = _commit(path, file)
        if expected is not None and commit.version != expected:
            raise damaged(path, f"has lost its commit {expected}")
        yield commit
        expected = commit.version - 1


def newest_manifest(path: Location, *, before: int | None = None) -> SnapshotManifest | None:
    """The manifest of the newest snapshot in the log, whatever was committed since; None if there is none.

    A commit that can't be read is passed over: use `verified_version` for what SQL shows.

    Args:
        path: the table's folder.
        before: look only at versions before this one.
    """
    for file in sorted(commit_files(path), reverse=True):
        if before is None or int(file.stem) < before:
            with suppress(SnapshotDamagedError):
                if (manifest := _commit(path, file).manifest) is not None:
                    return manifest
    return None


def _commit(path: Location, file: Location) -> Commit:
    lines = file.read_bytes().splitlines()
    try:
        actions = tuple(action for line in lines if line.strip() for action in orjson.loads(line).items())
    except (ValueError, AttributeError) as error:
        raise damaged(path, f"has a torn commit file: {file}") from error
    if not actions:
        raise damaged(path, f"has an empty commit file: {file}")
    return Commit(int(file.stem), actions)


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
