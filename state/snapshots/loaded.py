"""A snapshot in memory, verified on the way: its rows by key, as they stood in the changelog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from state.errors import StorageError
from state.snapshots.digest import entry_hash
from state.snapshots.manifest import SnapshotManifest, newest_manifest

_COLUMNS = ["_partition", "_key", "_value", "_timestamp_ms"]
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """The rows of one version.

    Attributes:
        manifest: what the snapshot is.
        rows: changelog values by key.
        newest_ms: timestamp of the newest record in it, epoch milliseconds; 0 if it is empty. A changelog has one
            writer, whose timestamps don't go back, so no record that was written before is missing.
    """

    manifest: SnapshotManifest
    rows: Mapping[bytes, bytes]
    newest_ms: int


def newest_snapshot(path: Path) -> SnapshotManifest | None:
    """The manifest of the newest snapshot at `path`; None if there is none.

    Raises:
        StorageError: if the table can't be read.
    """
    try:
        if not DeltaTable.is_deltatable(str(path)):
            return None
        return newest_manifest(DeltaTable(str(path)).history())
    except (DeltaError, OSError) as error:
        raise _unreadable(path, error) from error


def load_snapshot(path: Path, manifest: SnapshotManifest) -> LoadedSnapshot:
    """Reads the rows of a snapshot and compares them with its manifest.

    Raises:
        StorageError: if the table can't be read, or holds other rows than the manifest says.
    """
    try:
        table = DeltaTable(str(path), version=manifest.delta_version).to_pyarrow_table(columns=_COLUMNS)
    except (DeltaError, OSError) as error:
        raise _unreadable(path, error) from error
    rows: dict[bytes, bytes] = {}
    digests = dict.fromkeys(manifest.digests, 0)
    newest_ms = 0
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for partition, key, value, timestamp_ms in zip(*columns, strict=True):
            rows[key] = value
            digests[partition] = (digests.get(partition, 0) + entry_hash(key, value)) % _MODULUS
            newest_ms = max(newest_ms, timestamp_ms)
    if digests != dict(manifest.digests) or len(rows) != manifest.row_count:
        msg = f"the snapshot at {path}, version {manifest.delta_version}, differs from its manifest: verify it"
        raise StorageError(msg)
    return LoadedSnapshot(manifest, rows, newest_ms)


def _unreadable(path: Path, error: Exception) -> StorageError:
    msg = f"the snapshot at {path} can't be read ({type(error).__name__}): check the table, or write a new snapshot"
    return StorageError(msg)
