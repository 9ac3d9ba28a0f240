"""Replicas that are far behind begin with the rows of their store's sealed table, see `storekeeper.changelog.seeds`.

Only workers of the cold restore do this: a node itself reads no table of current rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.reader import ChangelogReader
from storekeeper.changelog.restore import LogState
from storekeeper.changelog.seeds import Behind, SeedRow, SeedSource, load_seeds
from storekeeper.clock import Clock
from storekeeper.names import store_of
from storekeeper.node.replicas.replica_storage import ReplicaStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.row import encode_row

Wanted = tuple[ReplicaId, str]
"""A replica, and its changelog topic."""


@dataclass(frozen=True, slots=True)
class Seeding:
    """Loads seeds into the closed stores of replicas.

    Attributes:
        source: finds the tables.
        storage: where the replicas' rows are.
        reader: asks the broker about changelogs.
        clock: for the age of seeds.
    """

    source: SeedSource
    storage: ReplicaStorage
    reader: ChangelogReader
    clock: Clock

    def load(self, replicas: Iterable[Wanted]) -> list[ReplicaId]:
        """Loads what can be used; returns the replicas that have begun with a seed.

        The others are as they were, or are restored from their changelogs when they are opened.
        """
        loaded: list[ReplicaId] = []
        by_store = sorted(replicas, key=lambda wanted: (wanted[0].store, wanted[1], wanted[0].partition))
        for (store, topic), group in groupby(by_store, key=lambda wanted: (wanted[0].store, wanted[1])):
            loaded += self._of_store(store, topic, [replica for replica, _ in group])
        return loaded

    def _of_store(self, store: str, topic: str, replicas: list[ReplicaId]) -> list[ReplicaId]:
        opened: list[_Seeded] = []

        def behind() -> Iterator[Behind]:
            facts = self.reader.facts(topic)
            for replica in replicas:
                log = self.reader.log_state(facts, replica.partition)
                opened.append(seeded := _Seeded(replica, self.storage))
                position = seeded.position(log)
                if position is not None:
                    yield Behind(log, position, seeded.empty, seeded.write, seeded.complete)

        try:
            partitions = load_seeds(self.source, store_of(store), behind(), self.clock)
        finally:
            for one in opened:
                one.close()
        return [replica for replica in replicas if replica.partition in partitions]


class _Seeded:
    """The open store of a replica that may begin with a seed."""

    def __init__(self, replica: ReplicaId, storage: ReplicaStorage) -> None:
        self._replica = replica
        self._storage = storage
        self._store = storage.open(replica)

    def position(self, log: LogState) -> int | None:
        """Where the replica would be read on without a seed; None if its rows may be the last copy, and must stay."""
        stored = self._store.metadata(METADATA_KEY)
        if stored is None:
            return log.start_offset
        checkpoint = Checkpoint.decode(stored)
        return checkpoint.offset if checkpoint.topic_id == log.topic_id else None

    def empty(self) -> None:
        """Deletes the rows."""
        self._store.close()
        self._storage.wipe(self._replica)
        self._store = self._storage.open(self._replica)

    def write(self, rows: Sequence[SeedRow], schema_version: int) -> None:
        """Writes rows bit for bit as the follower of the changelog does."""
        self._store.write(
            [
                (key, encode_row(value, schema_version=schema_version, timestamp_ms=timestamp_ms))
                for key, value, timestamp_ms in rows
            ]
        )

    def complete(self, checkpoint: Checkpoint) -> None:
        """Writes the checkpoint."""
        self._store.write((), {METADATA_KEY: checkpoint.encode()})

    def close(self) -> None:
        """Closes the store."""
        self._store.close()
