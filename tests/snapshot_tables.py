"""Tables as the snapshot job leaves them, written by deltalake: for tests that need no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from storekeeper.changelog.position import Position
from storekeeper.locations import Location
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import PLACE_COLUMNS, StoreValues, derived_columns, snapshot_schema
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import read_rows
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.row_digest import moved, row_hash


class Row(NamedTuple):
    """A row of a snapshot; its columns are named as these fields, behind an underscore."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes


def rows_of(content: Mapping[bytes, bytes], partition: int = 0) -> list[Row]:
    """Rows of one partition, in the order of their offsets."""
    return [Row(partition, offset, 1000 + offset, *entry) for offset, entry in enumerate(content.items())]


def manifest_of(rows: Sequence[Row], **changes: Any) -> SnapshotManifest:
    """The manifest of a snapshot that holds these rows."""
    digests: dict[int, int] = {}
    for row in rows:
        added = row_hash(row.key, row.value, row.offset, row.timestamp_ms)
        digests[row.partition] = moved(digests.get(row.partition, 0), added=added, removed=0)
    fields: dict[str, Any] = {
        "store": "words",
        "app": "app",
        "generation": 1,
        "schema_version": 1,
        "changelog_topic": "words-log",
        "changelog_offsets": {row.partition: row.offset + 1 for row in rows},
        "source_offsets": Position(),
        "row_count": len(rows),
        "digests": digests,
        "writer": "test",
        "delta_version": 0,
    }
    return SnapshotManifest(**fields | changes)


def arrow_rows(rows: Sequence[Row], columns: Mapping[str, str], values: StoreValues) -> pa.Table:
    """The rows as the table holds them."""
    typed = derived_columns([row.value for row in rows], columns, values.reader())
    places = [pa.array([row[number] for row in rows], kind) for number, kind in enumerate(snapshot_schema({}).types)]
    assert tuple(f"_{name}" for name in Row._fields) == tuple(PLACE_COLUMNS)
    return pa.table([*typed, *places], schema=snapshot_schema(columns))


def write_snapshot(
    path: Location,
    rows: Sequence[Row],
    fields: Sequence[ValueField] = (),
    *,
    registry: SchemaRegistry | None = None,
    manifest: SnapshotManifest | None = None,
    mode: Literal["overwrite", "append"] = "overwrite",
    **changes: Any,
) -> SnapshotManifest:
    """Commits rows with a manifest, by default that of a snapshot that holds just them; seals that. Returns it."""
    values = StoreValues(fields, registry)
    if manifest is None:
        bare = manifest_of(rows, by_schema=values.evolve, **changes)
        found = replace(bare, columns=values.following(bare.columns))
    else:
        found = manifest
    with sealed_at(path).writing():
        write_deltalake(
            str(path),
            arrow_rows(rows, values.columns_of(found), values),
            mode=mode,
            schema_mode="overwrite" if mode == "overwrite" else None,
            configuration={"delta.dataSkippingStatsColumns": "_partition,_offset,_timestamp_ms"},
            commit_properties=CommitProperties(custom_metadata={"userMetadata": found.to_json()}),
        )
    return found


def rows_in(path: Location, manifest: SnapshotManifest) -> dict[bytes, bytes]:
    """The rows of a snapshot by key. They are those that its manifest says."""
    rows: dict[bytes, bytes] = {}
    digests = dict.fromkeys(manifest.digests, 0)
    for batch in read_rows(path, manifest.delta_version, snapshot_schema({})):
        columns = [batch.column(name).to_pylist() for name in PLACE_COLUMNS]
        for partition, offset, timestamp_ms, key, value in zip(*columns, strict=True):
            rows[key] = value
            added = row_hash(key, value, offset, timestamp_ms)
            digests[partition] = moved(digests.get(partition, 0), added=added, removed=0)
    assert digests == dict(manifest.digests)
    return rows


def sealed_manifest(path: Location) -> SnapshotManifest | None:
    """The manifest in the seal of a table that is as it was sealed."""
    seal = sealed_at(path).current()
    return None if seal is None else seal.manifest


def sealed_at(path: Location) -> SealedTable:
    """The table at a path with its seal: in the run directory that it is in, or beside it."""
    run_dir = path.parent.parent if path.parent.name == "delta" else path.parent
    return SealedTable(path, run_dir / "seals" / f"{path.name}.json")
