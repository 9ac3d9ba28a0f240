"""Upkeep of the tables of snapshots: OPTIMIZE and VACUUM without breaking a promise, and the way back to a snapshot.

Readers read fixed versions: the fall-back of query nodes reads the newest snapshot's, `storekeeper sql --at` any
of the last days'. VACUUM removes files that the newest version doesn't need. After a compaction these include the
newest snapshot's files. So VACUUM is given the promised versions to keep, however old they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from deltalake import CommitProperties
from deltalake.exceptions import DeltaError

from storekeeper.apps.settings import AppSettings, SnapshotSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.delta_files import is_table
from storekeeper.engine.runtime.lease import job_held
from storekeeper.errors import ConfigurationError, SerializationError, SnapshotDamagedError, StorageError
from storekeeper.locations import Location, reaching
from storekeeper.snapshots.columns import StoreValues, values_of
from storekeeper.snapshots.delta_log import (
    VerifiedVersion,
    damaged,
    newest_manifest,
    newest_snapshot,
    open_table,
    unreadable,
    verified_version,
)
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import check_proven

HOUR_MS = 3_600_000
_SMALL_FILES = 8


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to a table: its version before and after, files in it before and after, files removed for good."""

    table: str
    version_before: int
    version: int
    files_before: int
    files: int
    vacuumed_files: int
    kept_versions: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """The upkeep as JSON's own types."""
        return asdict(self)


def kept_versions(
    history: Iterable[Mapping[str, Any]],
    promised: Iterable[int],
    *,
    snapshot: int | None,
    now_ms: int,
    history_ms: int,
) -> list[int]:
    """The versions to keep: all of the last `history_ms`, the newest before these, the newest `snapshot`, and the
    promised ones that are in the history.
    """
    commits = {int(commit["version"]): commit for commit in history}
    recent = {version for version, commit in commits.items() if commit.get("timestamp", 0) >= now_ms - history_ms}
    older = commits.keys() - recent
    kept = recent | ({max(older)} if older else set()) | (set(promised) & commits.keys())
    if snapshot is not None:
        kept.add(snapshot)
    return sorted(kept)


def promised_versions(folder: Path, *, now_ms: int) -> list[int]:
    """Versions that readers rely on: JSON files {"version": 12, "until_ms": null} in `folder`, null for ever.

    Raises:
        SerializationError: a file is none of these; nothing may be removed until it is corrected.
    """
    versions = []
    for path in sorted(folder.glob("*.json")):
        try:
            promise = orjson.loads(path.read_bytes())
            if promise["until_ms"] is None or promise["until_ms"] > now_ms:
                versions.append(int(promise["version"]))
        except (ValueError, KeyError, TypeError) as error:
            msg = f"{path} is not a promise of a table's version: correct or remove it"
            raise SerializationError(msg) from error
    return versions


def keep_up(path: Location, promised: Iterable[int], *, now_ms: int, history_ms: int) -> Upkeep | None:
    """Joins small files, then removes what no promised version needs. None if there is no such table. Repeatable.

    Hold the lease of the table's writer: one writer at a time.

    Raises:
        SnapshotDamagedError: something else has written to the table; nothing is removed before that is undone.
        StorageError: the table can't be written.
    """
    manifest = newest_snapshot(path)
    if not is_table(path):
        return None
    table = open_table(path)
    try:
        with reaching(path):
            before, files_before = table.version(), len(table.file_uris())
            if files_before >= _SMALL_FILES:
                table.optimize.compact()
            snapshot = None if manifest is None else manifest.delta_version
            kept = kept_versions(table.history(), promised, snapshot=snapshot, now_ms=now_ms, history_ms=history_ms)
            removed = table.vacuum(
                retention_hours=-(-history_ms // HOUR_MS),
                dry_run=False,
                enforce_retention_duration=False,  # the promises decide
                keep_versions=kept,
            )
            return Upkeep(
                path.name, before, table.version(), files_before, len(table.file_uris()), len(removed), tuple(kept)
            )
    except (DeltaError, OSError) as error:
        msg = f"{path} can't be maintained ({error}): check the table; repeating it is harmless"
        raise StorageError(msg) from error


def restore_snapshot(path: Location, manifest: SnapshotManifest, values: StoreValues) -> int | None:
    """Restores a table to its snapshot, and proves the result. Hold the lease of the table's writer.

    Args:
        path: the table's folder.
        manifest: that of the table's newest snapshot.
        values: the store's values, in the generation of the manifest.

    Returns:
        The version of the new commit, which has the snapshot's manifest; None if the table was sound.

    Raises:
        SnapshotDamagedError: the snapshot itself is damaged, or the table can't be written.
    """
    if _is_sound(path, values):
        return None
    check_proven(path, VerifiedVersion(manifest.delta_version, manifest), values)
    try:
        with reaching(path):
            open_table(path).restore(
                manifest.delta_version,
                protocol_downgrade_allowed=True,
                commit_properties=CommitProperties(custom_metadata={"userMetadata": manifest.to_json()}),
            )
    except (DeltaError, OSError) as error:
        raise unreadable(path, error) from error
    verified = verified_version(path)
    if verified is None:
        raise damaged(path, "lost its snapshots while it was restored")
    check_proven(path, verified, values)
    return verified.version


def _is_sound(path: Location, values: StoreValues) -> bool:
    try:
        verified = verified_version(path)
        if verified is not None:
            check_proven(path, verified, values)
    except SnapshotDamagedError:
        return False
    return verified is not None


def optimized(store: str, settings: SnapshotSettings) -> dict[str, Any]:
    """Joins small files and removes old ones; every promised version stays readable. Returns what was done."""
    with job_held(store, "snapshot", settings):
        now_ms = SystemClock().now_ms()
        promised = promised_versions(settings.run_dir / "promises" / store, now_ms=now_ms)
        done = keep_up(
            settings.delta_table(store),
            promised,
            now_ms=now_ms,
            history_ms=round(settings.table_history_days * DAY_MS),
        )
    return {"table": store, "missing": True} if done is None else done.as_dict()


def restored(store: StoreSpec, as_in: Callable[[SnapshotManifest], StoreSpec], settings: AppSettings) -> dict[str, Any]:
    """Puts the table back to its last snapshot; a sound one is left alone. Returns what was done.

    Args:
        store: the store, in the live generation of its app.
        as_in: the store in the generation of a snapshot.
        settings: where the tables are.

    Raises:
        ConfigurationError: there is no snapshot to go back to.
    """
    path = settings.delta_table(store.table_name)
    with job_held(store.name, "snapshot", settings):
        manifest = newest_manifest(path)
        if manifest is None:
            msg = f"there is no snapshot of {store.name} at {path} to go back to"
            raise ConfigurationError(msg)
        version = restore_snapshot(path, manifest, values_of(as_in(manifest), settings))
    return {
        "store": store.name,
        "snapshot": manifest.delta_version,
        "restored": version is not None,
        "version": version,
    }
