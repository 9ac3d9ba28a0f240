"""The sealed table of a store as the rows that a replica or a task's local store begins with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import compress

import pyarrow as pa
from deltalake.exceptions import DeltaError

from storekeeper.changelog.headers import SourceRanges
from storekeeper.changelog.restore import Seed, SeedRefusal
from storekeeper.changelog.seeds import Report, SeedRow, not_reported
from storekeeper.locations import Location, reaching
from storekeeper.snapshots.delta_log import VerifiedVersion, open_table, unreadable
from storekeeper.snapshots.seal import SealedTable

_COLUMNS = ["_partition", "_key", "_value", "_timestamp_ms"]


@dataclass(frozen=True, slots=True)
class TableSeed:
    """A version of a table, whose files are as they were sealed. A `SeedTable`."""

    path: Location
    verified: VerifiedVersion

    @property
    def schema_version(self) -> int:
        """That of all rows."""
        return self.verified.manifest.schema_version

    @property
    def source(self) -> SourceRanges:
        """Where the app's input goes on, as the range of a batch that ended there."""
        position = self.verified.manifest.source_offsets.offsets
        return {topic: {at: (offset, offset) for at, offset in parts.items()} for topic, parts in position.items()}

    def of(self, partition: int) -> Seed | SeedRefusal:
        """What it has of a changelog partition for a copy whose rows have a version, or why that can't be used."""
        seed = self.of_any_version(partition)
        if seed is None:
            return SeedRefusal.NOT_COVERED
        return seed if self.verified.manifest.one_version else SeedRefusal.SEVERAL_VERSIONS

    def of_any_version(self, partition: int) -> Seed | None:
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

    def rows(self, partitions: Collection[int]) -> Iterator[tuple[int, list[SeedRow]]]:
        """The rows of partitions, each time some of one partition.

        They are those that the changelog's records leave, with the records' timestamps.

        Raises:
            SnapshotDamagedError: a file is missing or damaged.
            TablesUnreachableError: the store of the tables doesn't answer.
        """
        wanted = " OR ".join(f"_partition = {partition}" for partition in sorted(partitions))
        table = open_table(self.path, self.verified.version)
        try:
            with reaching(self.path):
                for batch in pa.RecordBatchReader.from_stream(table.scan(columns=_COLUMNS, predicate=wanted)):
                    places, *columns = (batch.column(name).to_pylist() for name in _COLUMNS)
                    found: list[SeedRow] = list(zip(*columns, strict=True))
                    for partition in {*places}:
                        yield partition, list(compress(found, [place == partition for place in places]))
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise unreadable(self.path, error) from error


def newest_seed(sealed: SealedTable, report: Report = not_reported) -> TableSeed | None:
    """The newest version of a table, once all of its files have been read and are as they were sealed.

    None without a table, or before its first snapshot.

    Args:
        sealed: the table.
        report: called with the number of files that were compared, and of all.

    Raises:
        SnapshotDamagedError: the table isn't as it was sealed.
        TablesUnreachableError: its store doesn't answer.
    """
    seal = sealed.current(whole=True, report=report)
    verified = None if seal is None else seal.verified
    return None if verified is None else TableSeed(sealed.path, verified)
