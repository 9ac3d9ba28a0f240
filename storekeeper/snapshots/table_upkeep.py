"""Upkeep of the tables of snapshots: OPTIMIZE and VACUUM without breaking a promise.

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
from deltalake.exceptions import DeltaError

from storekeeper.apps.settings import SnapshotSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.clock import DAY_MS, SystemClock
from storekeeper.engine.runtime.lease import job_held
from storekeeper.errors import SerializationError, StorageError
from storekeeper.locations import reaching
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.delta_log import VerifiedVersion, open_table
from storekeeper.snapshots.history_upkeep import HistoryUpkeep
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.parquet_files import has_only
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.seal import SealedTable

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


def keep_up(sealed: SealedTable, promised: Iterable[int], *, now_ms: int, history_ms: int) -> Upkeep | None:
    """Joins small files, then removes what no promised version needs. None if there is no such table. Repeatable.

    Hold the lease of the table's writer: one writer at a time.

    Raises:
        SnapshotDamagedError: the table isn't as it was sealed; nothing is removed before that is undone.
        StorageError: the table can't be written.
    """
    path, seal = sealed.path, sealed.current()
    if seal is None:
        return None
    table = open_table(path)
    try:
        with reaching(path), sealed.writing():
            before, files_before = table.version(), len(table.file_uris())
            if files_before >= _SMALL_FILES:
                table.optimize.compact()
            snapshot = None if seal.manifest is None else seal.manifest.delta_version
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


def forget_versions(sealed: SealedTable) -> int:
    """Removes every file that neither a table's newest version needs nor its newest snapshot; returns how many.

    Hold the lease of the table's writer.

    Raises:
        SnapshotDamagedError: the table isn't as it was sealed.
        StorageError: the table can't be written.
    """
    path, seal = sealed.path, sealed.current()
    if seal is None or seal.manifest is None:
        return 0
    snapshot = seal.manifest.delta_version
    try:
        with reaching(path):
            table = open_table(path)
            if has_only(path, table, open_table(path, snapshot)):
                return 0
        with reaching(path), sealed.writing():
            removed = table.vacuum(
                retention_hours=0,
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
                keep_versions=[snapshot],
            )
    except (DeltaError, OSError) as error:
        msg = f"{path} can't be maintained ({error}): check the table; repeating it is harmless"
        raise StorageError(msg) from error
    return len(removed)


def optimized(store: str, as_in: Callable[[SnapshotManifest], StoreSpec], settings: SnapshotSettings) -> dict[str, Any]:
    """Joins small files and removes old ones; every promised version stays readable. Returns what was done.

    Of the history it drops old changes, and sorts closed days by key. A run that died is simply repeated: it has left
    the table unsealed, so the next one proves the table first.

    Args:
        store: the store's name.
        as_in: the store in the generation of a snapshot.
        settings: where the tables are.
    """
    with job_held(store, "snapshot", settings):
        now_ms = SystemClock().now_ms()
        promised = promised_versions(settings.run_dir / "promises" / store, now_ms=now_ms)
        table, versions_ms = SealedTable.of(settings, store), round(settings.table_history_days * DAY_MS)

        def prove(found: VerifiedVersion) -> None:
            check_proven(table.path, found, values_of(as_in(found.manifest), settings))

        table.to_build_on(prove)
        done = keep_up(table, promised, now_ms=now_ms, history_ms=versions_ms)
        seal = table.read()
        folded_ms = 0 if seal is None or seal.manifest is None else seal.manifest.batch_ms
        # The table has yet to follow the changes since: deletions among them too.
        kept_ms = max(round(settings.history_days * DAY_MS), now_ms - folded_ms)
        history = HistoryUpkeep(SealedTable.of(settings, store + HISTORY), store, now_ms).run(
            kept_ms=kept_ms, versions_ms=versions_ms
        )
    return {"table": store, "missing": True} if done is None else {**done.as_dict(), "history": history}
