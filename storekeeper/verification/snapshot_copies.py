"""The newest snapshot of a store as copies of its changelog's partitions, proved on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from storekeeper.locations import Location
from storekeeper.snapshots.columns import snapshot_schema
from storekeeper.snapshots.proof import PartitionContent, SnapshotProof, read_rows
from storekeeper.stores.row_digest import entry_hash
from storekeeper.verification.copies import Copy, Fold


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
        return tuple(f"table {self.path.name}, version {self.proof.version}: {flaw}" for flaw in self.proof.flaws)

    def of_partition(self, partition: int) -> list[Copy]:
        """The copy of a partition; none, if the table's columns are too different to be read."""
        if self.proof.partitions is None:
            return []
        held = self.proof.partitions.get(partition, PartitionContent())
        offset = self.proof.manifest.changelog_offsets.get(partition, 0)

        def entries(fold: Fold) -> tuple[int, Mapping[bytes, int], Callable[[bytes], bool]]:
            del fold
            return offset, self._entries(partition), lambda _: True

        return [Copy(f"snapshot {self.proof.version}", offset, held.rows, held.entries, entries)]

    def _entries(self, partition: int) -> dict[bytes, int]:
        return {
            key: entry_hash(key, value)
            for batch in read_rows(self.path, self.proof.version, snapshot_schema({}))
            for number, key, value in zip(
                *(batch[name].to_pylist() for name in ("_partition", "_key", "_value")), strict=True
            )
            if number == partition and key is not None and value is not None
        }
