"""The way back of a table to its last snapshot, after another program or a disk has changed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltalake import CommitProperties
from deltalake.exceptions import DeltaError

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.engine.runtime.lease import job_held
from storekeeper.errors import ConfigurationError, SnapshotDamagedError
from storekeeper.locations import reaching
from storekeeper.snapshots.columns import StoreValues, values_of
from storekeeper.snapshots.delta_log import VerifiedVersion, damaged, newest_manifest, open_table, unreadable
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.seal import SealedTable


def last_snapshot(sealed: SealedTable) -> SnapshotManifest | None:
    """The newest snapshot that a table can go back to; None if it holds none.

    The commits up to it, and what readers may take instead of them, are as they were sealed. Without a seal the log is
    taken as it is.

    Raises:
        SnapshotDamagedError: there are snapshots, and the commits of none of them are as they were sealed.
    """
    newest = newest_manifest(sealed.path)
    wrong = sealed.differences()
    seal_version = None if wrong is None else _sealed_version(sealed)
    if newest is None or wrong is None or seal_version is None:
        return newest
    damaged_at = [
        one.log_version
        for one in wrong
        if one.log_version is not None and (one.kind != "added" or one.log_version <= seal_version)
    ]
    sound = newest_manifest(sealed.path, before=min([seal_version + 1, *damaged_at]))
    if sound is None:
        names = [one.name for one in wrong if one.log_version is not None]
        raise damaged(sealed.path, f"has no commit of a snapshot that is as it was sealed: {names[0]} differs")
    return sound


def _sealed_version(sealed: SealedTable) -> int | None:
    seal = sealed.read()
    return None if seal is None else seal.version


def restore_snapshot(sealed: SealedTable, manifest: SnapshotManifest, values: StoreValues) -> int | None:
    """Restores a table to a snapshot, proves the result, and seals it. Hold the lease of the table's writer.

    Args:
        sealed: the table.
        manifest: that of its last snapshot.
        values: the store's values, in the generation of the manifest.

    Returns:
        The version of the new commit, which has the snapshot's manifest; None if the table was sound.

    Raises:
        SnapshotDamagedError: the snapshot itself is damaged, or the table can't be written.
    """
    wrong = sealed.differences()
    if wrong == []:
        return None
    if wrong is None and _is_sound(sealed, values):
        sealed.sealed()
        return None
    path = sealed.path
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
    restored = newest_manifest(path)
    if restored is None:
        raise damaged(path, "lost its snapshots while it was restored")
    check_proven(path, VerifiedVersion(open_table(path).version(), restored), values)
    return sealed.sealed().version


def _is_sound(sealed: SealedTable, values: StoreValues) -> bool:
    """Whether a table without a valid seal shows its newest snapshot."""
    try:
        shown = sealed.shown()
        if shown is not None:
            check_proven(sealed.path, shown, values)
    except SnapshotDamagedError:
        return False
    return shown is not None


def restored(store: StoreSpec, as_in: Callable[[SnapshotManifest], StoreSpec], settings: AppSettings) -> dict[str, Any]:
    """Puts the table back to its last snapshot; a sound one is left alone. Returns what was done.

    Args:
        store: the store, in the live generation of its app.
        as_in: the store in the generation of a snapshot.
        settings: where the tables are.

    Raises:
        ConfigurationError: there is no snapshot to go back to.
        SnapshotDamagedError: as `last_snapshot` and `restore_snapshot`.
    """
    sealed = SealedTable.of(settings, store.table_name)
    with job_held(store.name, "snapshot", settings):
        manifest = last_snapshot(sealed)
        if manifest is None:
            msg = f"there is no snapshot of {store.name} at {sealed.path} to go back to"
            raise ConfigurationError(msg)
        version = restore_snapshot(sealed, manifest, values_of(as_in(manifest), settings))
    return {
        "store": store.name,
        "snapshot": manifest.delta_version,
        "restored": version is not None,
        "version": version,
    }
