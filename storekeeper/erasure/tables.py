"""A store's tables while keys are erased from them.

A change stays in the history as long as its record is in the changelog: a history that lacks what the changelog has is
a damaged one for verification. So the tables follow what the log cleaner has removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storekeeper.clock import Clock
from storekeeper.erasure.changelog import Place
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.snapshots.as_of import changes_in
from storekeeper.snapshots.delta_log import VerifiedVersion
from storekeeper.snapshots.history import newest_history
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.history_upkeep import HistoryUpkeep
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.table_upkeep import forget_versions


@dataclass
class ErasedTables:
    """The table of a store and its history. Hold the lease of the store's snapshots for `drop`.

    Attributes:
        store: the store's name.
        table, history: the two.
        prove: raises SnapshotDamagedError if a version of the table does not show what its manifest says.
        clock: for the upkeep.
    """

    store: str
    table: SealedTable
    history: SealedTable
    prove: Callable[[VerifiedVersion], object]
    clock: Clock

    def row_keys(self, keys: ErasedKeys) -> set[bytes]:
        """The row keys of the keys that the history has a change of."""
        history, found = StoreHistory.beside(self.table.path), set[bytes]()
        if history is not None:
            changes = pa.RecordBatchReader.from_stream(history.changes(changes_in(keys.ranges), columns=["_key"]))
            for batch in changes:
                found |= {one for one in pc.unique(batch["_key"]).to_pylist() if keys.holds(one)}
        return found

    def lacks(self, topic: str, places: Sequence[Place]) -> bool:
        """Whether the tables don't know all of these records of a changelog yet."""
        ends: dict[int, int] = {}
        for place in places:
            ends[place.partition] = max(ends.get(place.partition, 0), place.offset + 1)
        seal, history = self.table.current(), newest_history(self.history.path)
        manifests = [*([seal.manifest] if seal is not None and seal.manifest is not None else [])]
        reached = [(one.changelog_topic, one.changelog_offsets) for one in manifests]
        if history is not None:
            reached.append((history.manifest.changelog_topic, history.manifest.changelog_offsets))
        return any(
            known != topic or any(offsets.get(at, 0) < end for at, end in ends.items()) for known, offsets in reached
        )

    def drop(self, keys: ErasedKeys, places: Sequence[Place], ends: Mapping[int, int]) -> int:
        """Drops the changes whose records the changelog does not have any more; returns how many.

        If there were some, or the changelog has none, only the newest version of each table stays readable.

        Args:
            keys: the keys.
            places: all records of the keys that the changelog still has before `ends`.
            ends: up to where it was read, by partition. A snapshot may have appended later changes since: they stay.
        """
        upkeep = HistoryUpkeep(self.history, self.store, self.clock.now_ms())
        dropped = upkeep.erase(keys.ranges, {(place.partition, place.offset) for place in places}, ends)
        if dropped or not places:
            upkeep.forget_versions()
            self.table.to_build_on(self.prove)  # a call that died may have left it unsealed
            forget_versions(self.table)
        return dropped

    def evidence(self) -> list[dict[str, Any]]:
        """Each table as it is sealed now: its version, and the size and SHA-256 of all its files."""
        shown = []
        for sealed in (self.table, self.history):
            seal = sealed.current(whole=True)
            if seal is not None:
                files = {name: {"size": one.size, "sha256": one.sha256} for name, one in sorted(seal.files.items())}
                shown.append({"table": sealed.path.name, "version": seal.version, "files": files})
        return shown


TakeSnapshot = Callable[[], object]
"""Takes the tables on to the last batch of the app."""
