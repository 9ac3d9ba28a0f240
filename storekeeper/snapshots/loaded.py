"""A snapshot in memory, verified on the way: its rows by key, as they stood in the changelog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storekeeper.changelog.partitioner import partition_for
from storekeeper.locations import Location
from storekeeper.snapshots.columns import PLACE_COLUMNS, snapshot_schema
from storekeeper.snapshots.delta_log import damaged
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import read_rows
from storekeeper.stores.row_digest import moved, row_hash


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """The rows of one version.

    Attributes:
        manifest: what the snapshot is.
        rows: changelog values by key; of a key with rows in several partitions, that of the partition where nodes look.
        newest_ms: timestamp of the newest record in it, epoch milliseconds; 0 if it is empty. A changelog has one
            writer, whose timestamps don't go back, so no record that was written before is missing.
    """

    manifest: SnapshotManifest
    rows: Mapping[bytes, bytes]
    newest_ms: int


def load_snapshot(path: Location, manifest: SnapshotManifest) -> LoadedSnapshot:
    """Reads the rows of a snapshot and compares them with its manifest.

    Raises:
        SnapshotDamagedError: if the table can't be read, or its rows don't match the manifest.
    """
    rows: dict[bytes, bytes] = {}
    digests = dict.fromkeys(manifest.digests, 0)
    newest_ms = count = 0
    for batch in read_rows(path, manifest.delta_version, snapshot_schema({})):
        if any(column.null_count for column in batch.columns):
            raise damaged(path, f"lacks keys, values or places of rows at version {manifest.delta_version}")
        columns = [batch.column(name).to_pylist() for name in PLACE_COLUMNS]
        for partition, offset, timestamp_ms, key, value in zip(*columns, strict=True):
            count += 1
            if key not in rows or partition == partition_for(key, len(manifest.changelog_offsets)):
                rows[key] = value
            added = row_hash(key, value, offset, timestamp_ms)
            digests[partition] = moved(digests.get(partition, 0), added=added, removed=0)
            newest_ms = max(newest_ms, timestamp_ms)
    if digests != dict(manifest.digests) or count != manifest.row_count:
        raise damaged(path, f"holds other rows at version {manifest.delta_version} than its manifest says")
    return LoadedSnapshot(manifest, rows, newest_ms)
