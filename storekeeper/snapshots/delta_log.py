"""The log of a table of snapshots: the manifests in it, and its errors.

It is read here file by file: `DeltaTable.history` skips an empty commit file, and then numbers all others
wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.delta_files import commit_files
from storekeeper.errors import SerializationError, SnapshotDamagedError
from storekeeper.locations import Location, reaching
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.manifest import SnapshotManifest

_MOST_CHARS = 300


def damaged(path: Location, what: str) -> SnapshotDamagedError:
    """The error that says what is wrong with a table, and how to go on."""
    if path.name.endswith(HISTORY):
        store = path.name.removesuffix(HISTORY)
        advice = f"Move {path} and its seal away; `storekeeper snapshot create {store}` then begins another history"
        return SnapshotDamagedError(f"table {path.name} {what}. {advice}")
    return SnapshotDamagedError(
        f"table {path.name} {what}. Go back to its last snapshot with `storekeeper snapshot restore {path.name}`. If "
        f"that can't be done, move {path} and its seal away, and write a new snapshot: `storekeeper snapshot create "
        f"{path.name}`"
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


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """A version of a table, and the manifest of the snapshot that it holds."""

    version: int
    manifest: SnapshotManifest


def newest_manifest(path: Location, *, before: int | None = None) -> SnapshotManifest | None:
    """The manifest of the newest snapshot in the log, whatever was committed since; None if there is none.

    A commit that can't be read is passed over.

    Args:
        path: the table's folder.
        before: look only at versions before this one.
    """
    for file in sorted(commit_files(path), reverse=True):
        if before is None or int(file.stem) < before:
            commit = read_commit(file)
            if commit is not None and commit.manifest is not None:
                return commit.manifest
    return None


def commits(path: Location) -> Iterator[Commit]:
    """The table's commits, newest first, as far back as the log reaches.

    Raises:
        SnapshotDamagedError: a commit is missing, empty or torn.
    """
    expected: int | None = None
    for file in sorted(commit_files(path), reverse=True):
        commit = read_commit(file)
        if commit is None:
            raise damaged(path, f"has an empty or torn commit file: {file}")
        if expected is not None and commit.version != expected:
            raise damaged(path, f"has lost its commit {expected}")
        yield commit
        expected = commit.version - 1


def read_commit(file: Location) -> Commit | None:
    """The commit in a file; None if it is gone, empty or torn."""
    with suppress(ValueError, AttributeError, FileNotFoundError):
        lines = file.read_bytes().splitlines()
        actions = tuple(action for line in lines if line.strip() for action in orjson.loads(line).items())
        return Commit(int(file.stem), actions) if actions else None
    return None
