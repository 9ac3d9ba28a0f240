"""Going back to a table's last snapshot, by Delta's own RESTORE: the versions since stay readable."""

from __future__ import annotations

from deltalake import CommitProperties
from deltalake.exceptions import DeltaError

from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import Location, reaching
from storekeeper.snapshots.damage import damaged, open_table, unreadable
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.store_values import StoreValues
from storekeeper.snapshots.verified_version import VerifiedVersion, verified_version


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
    found = verified_version(path)
    if found is None:
        raise damaged(path, "lost its snapshots while it was restored")
    check_proven(path, found, values)
    return found.version


def _is_sound(path: Location, values: StoreValues) -> bool:
    try:
        found = verified_version(path)
        if found is not None:
            check_proven(path, found, values)
    except SnapshotDamagedError:
        return False
    return found is not None
