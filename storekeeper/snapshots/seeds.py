"""The sealed table of a store as the rows that a replica begins with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import compress

import pyarrow as pa
from deltalake.exceptions import DeltaError

from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.restore import Seed
from storekeeper.locations import Location, reaching
from storekeeper.snapshots.delta_log import VerifiedVersion, open_table, unreadable
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.row import encode_row

_COLUMNS = ["_partition", "_key", "_value", "_timestamp_ms"]


@dataclass(frozen=True, slots=True)
class TableSeed:
    """A version of a table, whose files are as they were sealed."""

    path: Location
    verified: VerifiedVersion

    def of(self, partition: int) -> Seed | None:
        """What it has of a changelog partition for a replica, whose rows have a version; None if that is nothing."""
        return self.lies(partition) if self.verified.manifest.one_version else None

    def lies(self, partition: int) -> Seed | None:
        """What it has of a changelog partition; None if it has nothing."""
        manifest = self.verified.manifest
        offset = manifest.changelog_offsets.get(partition)
        if offset is None:
            return None
        return Seed(
            manifest.changelog_topic,
            manifest.changelog_id,
            partition,
            offset,
            manifest.batch_ms,
            manifest.row_count // len(manifest.changelog_offsets),
        )

    @property
    def source(self) -> SourceRanges:
        """Where the app's input goes on, as the range of a batch that ended there."""
        position = self.verified.manifest.source_offsets.offsets
        return {topic: {at: (offset, offset) for at, offset in parts.items()} for topic, parts in position.items()}

    def rows(self, partitions: Collection[int]) -> Iterator[tuple[int, list[Entry]]]:
        """The rows of partitions as a replica stores them, each time some of one partition.

        They are bit for bit those that the changelog's records leave.

        Raises:
            SnapshotDamagedError: a file is missing or damaged.
            TablesUnreachableError: the store of the tables doesn't answer.
        """
        version = self.verified.manifest.schema_version
        wanted = " OR ".join(f"_partition = {partition}" for partition in sorted(partitions))
        table = open_table(self.path, self.verified.version)
        try:
            with reaching(self.path):
                for batch in pa.RecordBatchReader.from_stream(table.scan(columns=_COLUMNS, predicate=wanted)):
                    places, *columns = (batch.column(name).to_pylist() for name in _COLUMNS)
                    entries = [
                        (key, encode_row(value, schema_version=version, timestamp_ms=timestamp_ms))
                        for key, value, timestamp_ms in zip(*columns, strict=True)
                    ]
                    for partition in {*places}:
                        yield partition, list(compress(entries, [place == partition for place in places]))
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise unreadable(self.path, error) from error


def newest_seed(sealed: SealedTable) -> TableSeed | None:
    """The newest version of a table, once all of its files have been read and are as they were sealed.

    None without a table, or before its first snapshot.

    Raises:
        SnapshotDamagedError: the table isn't as it was sealed.
        TablesUnreachableError: its store doesn't answer.
    """
    seal = sealed.current(whole=True)
    verified = None if seal is None else seal.verified
    return None if verified is None else TableSeed(sealed.path, verified)
