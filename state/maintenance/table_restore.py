"""Going back to a table's last snapshot, by Delta's own RESTORE: the versions since stay readable."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import CommitProperties
from deltalake.exceptions import DeltaError

from state.errors import SnapshotDamagedError
from state.locations import Location, reaching
from state.snapshots.columns import Field
from state.snapshots.damage import damaged, open_table, unreadable
from state.snapshots.manifest import SnapshotManifest
from state.snapshots.proof import check_proven
from state.snapshots.vouched import VouchedVersion, vouched_version


def restore_snapshot(path: Location, manifest: SnapshotManifest, fields: Sequence[Field]) -> int | None:
    """Restores a table to its snapshot, and proves the result. Hold the lease of the table's writer.

    Args:
        path: the table's folder.
        manifest: that of the table's newest snapshot.
        fields: the fields of the store's values, in the generation of the manifest.

    Returns:
        The version of the new commit, which has the snapshot's manifest; None if the table was sound.

    Raises:
        SnapshotDamagedError: the snapshot itself is damaged, or the table can't be written.
    """
    if _is_sound(path, fields):
        return None
    check_proven(path, VouchedVersion(manifest.delta_version, manifest), fields)
    try:
        with reaching(path):
            open_table(path).restore(
                manifest.delta_version,
                protocol_downgrade_allowed=True,
                commit_properties=CommitProperties(custom_metadata={"userMetadata": manifest.to_json()}),
            )
    except (DeltaError, OSError) as error:
        raise unreadable(path, error) from error
    found = vouched_version(path)
    if found is None:
        raise damaged(path, "lost its snapshots while it was restored")
    check_proven(path, found, fields)
    return found.version


def _is_sound(path: Location, fields: Sequence[Field]) -> bool:
    try:
        found = vouched_version(path)
        if found is not None:
            check_proven(path, found, fields)
    except SnapshotDamagedError:
        return False
    return found is not None
