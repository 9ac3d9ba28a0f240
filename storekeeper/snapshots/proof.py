"""Proving that a table shows what its snapshot's manifest vouches for: every column of every row.

The digests of the manifest cover a row's key, value, partition, offset and time. The other columns are derived from the
value again. One pass over the table, a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from storekeeper.locations import Location, reaching
from storekeeper.masked_keys import masked_key
from storekeeper.snapshots.columns import (
    PLACE_COLUMNS,
    ReadFields,
    StoreValues,
    derived_columns,
    snapshot_schema,
    sql_types,
)
from storekeeper.snapshots.delta_log import VerifiedVersion, damaged, open_table, unreadable
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.parquet_files import decode
from storekeeper.stores.row_digest import moved, row_hash

_SHOWN_KEYS = 3
_SHOWN_FLAWS = 3


@dataclass(slots=True)
class PartitionContent:
    """What a table holds of a partition: rows, and their digest."""

    rows: int = 0
    digest: int = 0


@dataclass(slots=True)
class Flaw:
    """How many rows have a flaw, and the keys of the first."""

    rows: int = 0
    keys: list[bytes] = field(default_factory=list)

    @property
    def first(self) -> str:
        """The keys of the first, masked; empty without any."""
        return f", first {', '.join(map(masked_key, self.keys))}" if self.keys else ""

    def note(self, keys: Iterable[bytes | None]) -> None:
        """Counts rows by their keys."""
        for key in keys:
            self.rows += 1
            if key is not None and len(self.keys) < _SHOWN_KEYS:
                self.keys.append(key)


@dataclass(frozen=True, slots=True)
class SnapshotProof:
    """What was found in a table.

    Attributes:
        version: which version was read.
        manifest: what it was compared with.
        partitions: what it holds of each; None if its columns are wrong, and nothing was read.
        flaws: a sentence for each, keys masked. Without any, the table is what its manifest vouches for.
    """

    version: int
    manifest: SnapshotManifest
    partitions: dict[int, PartitionContent] | None
    flaws: tuple[str, ...]


def prove(path: Location, verified: VerifiedVersion, values: StoreValues) -> SnapshotProof:
    """Reads a version of a table and compares it with a manifest.

    Args:
        path: the table's folder.
        verified: the version, and the manifest of what it should hold.
        values: the store's values, in the generation of the manifest.

    Raises:
        SnapshotDamagedError: a file of the table is missing or can't be read.
        SchemaRegistryUnavailableError: the values are by schemas, and the registry doesn't answer.
    """
    manifest = verified.manifest
    columns = values.columns_of(manifest)
    if flaws := _wrong_columns(path, verified.version, columns):
        return SnapshotProof(verified.version, manifest, None, flaws)
    reading = _Reading(columns, values.reader(), manifest.changelog_offsets)
    for batch in read_rows(path, verified.version, snapshot_schema(columns)):
        reading.take(batch)
    flaws = (*reading.flaws(), *_miscounted(reading, manifest))
    return SnapshotProof(verified.version, manifest, reading.partitions, flaws)


def check_proven(path: Location, verified: VerifiedVersion, values: StoreValues) -> None:
    """Proves a table.

    Raises:
        SchemaRegistryUnavailableError: as `prove`.
        SnapshotDamagedError: it isn't what its manifest vouches for. The message has the first flaws, and the way on.
    """
    flaws = prove(path, verified, values).flaws
    if flaws:
        raise damaged(path, f"is damaged at version {verified.version}: {'; '.join(flaws[:_SHOWN_FLAWS])}")


def read_rows(path: Location, version: int, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows of a version as SQL reads them, a batch at a time; only the given columns, which the table must have.

    Raises:
        SnapshotDamagedError: a file is missing or damaged.
    """
    table = open_table(path, version)
    try:
        with reaching(path):
            decode(path, table)  # it refuses files that would crash the process in SQL's reader
            batches = pa.RecordBatchReader.from_stream(table.scan(columns=columns.names))
        for batch in batches:
            yield batch.cast(columns)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


class _Reading:
    """A pass over a table."""

    def __init__(self, columns: Mapping[str, str], read: ReadFields, ends: Mapping[int, int]) -> None:
        self._ends = ends
        self._columns = columns
        self._read = read
        self._flaws: dict[str, Flaw] = {}
        self.partitions: dict[int, PartitionContent] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Reads some rows."""
        keys, values = batch["_key"].to_pylist(), batch["_value"].to_pylist()
        for name in PLACE_COLUMNS:
            missing = pc.indices_nonzero(batch[name].is_null()).to_pylist()
            self._note(name, "is null", (keys[row] for row in missing))
        places = (batch[name].to_pylist() for name in ("_partition", "_offset", "_timestamp_ms"))
        for row in zip(*places, keys, values, strict=True):
            if None not in row:
                self._add(*row)
        for name, expected in zip(self._columns, derived_columns(values, self._columns, self._read), strict=True):
            rows = differing(batch[name], expected)
            self._note(name, "isn't what the row's value says", (keys[row] for row in rows))

    def flaws(self) -> Iterator[str]:
        """The flaws of single rows."""
        for what, flaw in self._flaws.items():
            if flaw.rows:
                yield f"{what} in {flaw.rows} rows{flaw.first}"

    def _add(self, partition: int, offset: int, timestamp_ms: int, key: bytes, value: bytes) -> None:
        content = self.partitions.setdefault(partition, PartitionContent())
        content.rows += 1
        if offset >= self._ends.get(partition, 0):
            self._note("_offset", "is behind the end of the snapshot", [key])
        content.digest = moved(content.digest, added=row_hash(key, value, offset, timestamp_ms), removed=0)

    def _note(self, column: str, what: str, keys: Iterable[bytes | None]) -> None:
        self._flaws.setdefault(f"column {column} {what}", Flaw()).note(keys)


def _miscounted(reading: _Reading, manifest: SnapshotManifest) -> Iterator[str]:
    """How the rows as a whole differ from the manifest."""
    rows = sum(content.rows for content in reading.partitions.values())
    if rows != manifest.row_count:
        yield f"it holds {rows} rows, and its manifest says {manifest.row_count}"
    for partition in sorted(reading.partitions.keys() | manifest.digests.keys()):
        content = reading.partitions.get(partition, PartitionContent())
        if content.digest != manifest.digests.get(partition, 0):
            yield f"partition {partition}: its {content.rows} rows are not those of the manifest"


def _wrong_columns(path: Location, version: int, columns: Mapping[str, str]) -> tuple[str, ...]:
    declared = {**columns, **PLACE_COLUMNS}
    types = sql_types(open_table(path, version))
    if list(types.items()) == list(declared.items()):
        return ()
    return (f"its columns are {_shown_columns(types)}, and should be {_shown_columns(declared)}",)


def _shown_columns(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def differing(actual: pa.Array, expected: pa.Array) -> list[int]:
    """The places where two columns of one type differ, to the bit."""
    ours, theirs = _bits(actual), _bits(expected)
    if ours.equals(theirs):
        return []
    unequal = pc.fill_null(pc.not_equal(ours, theirs), False)
    return pc.indices_nonzero(pc.or_(unequal, pc.xor(ours.is_null(), theirs.is_null()))).to_pylist()


def _bits(column: pa.Array) -> pa.Array:
    """Floats and times as integers: 0.0 isn't -0.0, and NaN equals itself."""
    if pa.types.is_float64(column.type) or pa.types.is_timestamp(column.type):
        return column.view(pa.int64())
    return column.view(pa.int32()) if pa.types.is_float32(column.type) else column
