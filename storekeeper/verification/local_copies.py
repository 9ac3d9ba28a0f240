"""The local stores of a store's tasks on this machine, as copies. They are only read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storekeeper.changelog.restore import LogState, RestoreAction, plan_restore
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import Clock
from storekeeper.engine.local_store import position_of
from storekeeper.errors import StorageError, StoreCorruptedError
from storekeeper.stores.rocksdb_sealed import SealedView
from storekeeper.stores.row_digest import entry_hash, moved
from storekeeper.topology.store import StoreBackend
from storekeeper.topology.task_stores import rows_as_logged
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.verification.copies import Copy, Held

_TRIES = 3
"""A running task may replace files while they are read."""


@dataclass
class LocalCopies:
    """The local stores of one store's tasks on this machine.

    Attributes:
        spec: the store.
        root: the folder of its generation's local stores.
        changelog: the store's changelog.
        clock: for the age of stores.
        flaws: stores that can't be compared because they are damaged or changed, one sentence each.
    """

    spec: TopologyStore
    root: Path
    changelog: Changelog
    clock: Clock
    flaws: list[str] = field(default_factory=list)
    _folders: dict[tuple[str, int], Path] = field(default_factory=dict)

    @property
    def not_compared(self) -> list[str]:
        """Rows of tasks that no file has, in words."""
        backend = self.spec.options.backend
        return [] if backend == StoreBackend.ROCKSDB else [f"the rows of tasks, which backend {backend} keeps"]

    def of_partition(self, partition: int) -> list[Copy]:
        """The copies of a partition. One that its task would empty before it reads on is none."""
        copies = []
        for folder in sorted(self.root.glob(f"*/{partition}/{self.spec.name}")):
            copy = self._tried(folder, partition)
            if copy is not None:
                copies.append(copy)
        return copies

    def _tried(self, folder: Path, partition: int) -> Copy | None:
        for left in reversed(range(_TRIES)):
            try:
                return self._copy(folder, partition)
            except (StorageError, StoreCorruptedError) as error:
                if not left:
                    self.flaws.append(f"{self.name_of(folder)}, partition {partition}: {error}")
        return None

    def _copy(self, folder: Path, partition: int) -> Copy | None:
        with tempfile.TemporaryDirectory() as scratch:
            view = SealedView(folder, self.spec.name, Path(scratch))
            try:
                position = position_of(view)
                if position is None:
                    return None
                hashes = {key: entry_hash(key, value) for key, value in rows_as_logged(self.spec, view)}
            finally:
                view.close()
        checkpoint, own_end = position
        facts, (first, end) = self.changelog.facts, self.changelog.committed(partition)
        log = LogState(facts.topic, facts.topic_id, partition, first, end, facts.delete_retention_ms)
        behind_ms = self.clock.now_ms() - checkpoint.whole_at_ms
        if plan_restore(checkpoint, empty=False, log=log, behind_ms=behind_ms).action is not RestoreAction.RESUME:
            return None
        holder = self.name_of(folder)
        self._folders[holder, partition] = folder

        def held(_: Mapping[bytes, int]) -> Iterator[Held]:
            excused = self._excused(partition, checkpoint.offset, hashes)
            compared = {key: entry for key, entry in hashes.items() if key not in excused}
            yield Held(own_end, compared, lambda key: key not in excused)

        return Copy(holder, own_end, len(hashes), moved(0, added=sum(hashes.values()), removed=0), held)

    def folder_of(self, copy: tuple[str, int]) -> Path | None:
        """The folder of a copy, by its holder's name and its partition; None if it is another's copy."""
        return self._folders.get(copy)

    def name_of(self, folder: Path) -> str:
        """The name of the holder of a local store."""
        return f"local store {folder.parent.parent.name}/{self.spec.name}"

    def _excused(self, partition: int, start: int, hashes: Mapping[bytes, int]) -> set[bytes]:
        """The keys whose rows are right although they aren't those at the store's offset.

        That offset is the least at which its last batch can end. If a clean-up wrote at the same time, records of the
        batch lie behind it, and the store gets the clean-up's records with the next batch.
        """
        excused = set()
        for record in self.changelog.scan(partition, start, self.changelog.committed(partition)[1]):
            key = record.key or b""
            logged = None if record.value is None else entry_hash(key, record.value)
            if record.is_of_cleanup or logged == hashes.get(key):
                excused.add(key)
        return excused
