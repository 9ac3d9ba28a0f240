"""The newest snapshot of a store, as a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storekeeper.locations import Location
from storekeeper.snapshots.columns import PLACE_COLUMNS, snapshot_schema
from storekeeper.snapshots.proof import PartitionContent, SnapshotProof, read_rows
from storekeeper.stores.row_digest import moved, row_hash
from storekeeper.verification.copies import Copy, Held, of_snapshot_row


@dataclass(frozen=True, slots=True)
class SnapshotCopies:
    """What a table shows.

    Attributes:
        path: the table's folder.
        proof: what was found in it.
    """

    path: Location
    proof: SnapshotProof

    @property
    def flaws(self) -> tuple[str, ...]:
        """The flaws of the table itself: one sentence each; keys masked."""
        return tuple(map(self.sentence, self.proof.flaws))

    def sentence(self, flaw: str) -> str:
        """A flaw, with the table that has it."""
        return f"table {self.path.name}, version {self.proof.version}: {flaw}"

    def of_partition(self, partition: int) -> list[Copy]:
        """The copy of a partition; none, if the table's columns are too different to be read."""
        if self.proof.partitions is None:
            return []
        content = self.proof.partitions.get(partition, PartitionContent())
        offset = self.proof.manifest.changelog_offsets.get(partition, 0)

        def held(_: Mapping[bytes, int]) -> Iterator[Held]:
            hashes, places = self._rows(partition)
            yield Held(offset, hashes, places=places)

        holder = f"snapshot {self.proof.version}"
        return [Copy(holder, offset, content.rows, content.digest, held, of_snapshot_row)]

    def _rows(self, partition: int) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """The hashes of a partition's rows, and the offsets of their records, by key."""
        hashes, places = dict[bytes, int](), dict[bytes, int]()
        for batch in read_rows(self.path, self.proof.version, snapshot_schema({})):
            columns = (batch[name].to_pylist() for name in PLACE_COLUMNS)
            for number, offset, timestamp_ms, key, value in zip(*columns, strict=True):
                if number == partition and None not in (offset, timestamp_ms, key, value):
                    added = row_hash(key, value, offset, timestamp_ms)
                    # A key that is there twice differs, whichever of its rows is the right one.
                    hashes[key], places[key] = moved(hashes.get(key, 0), added=added, removed=0), offset
        return hashes, places
