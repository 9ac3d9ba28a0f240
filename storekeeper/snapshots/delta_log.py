"""The log of a Delta table on disk, and the manifests in it.

It is read here file by file: `DeltaTable.history` skips an empty commit file, and then numbers all others
wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson

from storekeeper.delta_files import commit_files
from storekeeper.errors import SerializationError, SnapshotDamagedError
from storekeeper.locations import Location
from storekeeper.snapshots.damage import damaged
from storekeeper.snapshots.manifest import SnapshotManifest


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
