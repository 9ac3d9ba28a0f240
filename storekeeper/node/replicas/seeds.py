"""Replicas that are far behind begin with the rows of their store's sealed table, and read the changelog on from there.

Only workers of the cold restore do this: a node itself reads no table of current rows. A seed saves time and nothing
else, so whatever is wrong with it, the replica is restored from the changelog alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import structlog

from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.reader import ChangelogReader
from storekeeper.changelog.restore import LogState, seed_refusal
from storekeeper.clock import Clock
from storekeeper.errors import StateError
from storekeeper.locations import location
from storekeeper.names import store_of
from storekeeper.node.replicas.replica_storage import ReplicaStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.bytes_store import BytesStore

log = structlog.get_logger(__name__)

Wanted = tuple[ReplicaId, str]
"""A replica, and its changelog topic."""


@dataclass(frozen=True, slots=True)
class SeedTables:
    """Where the stores' sealed tables are.

    Attributes:
        tables: the folder of the Delta tables, one a store.
        seals: the folder of their seals.
    """

    tables: str
    seals: str


@dataclass(frozen=True, slots=True)
class Seeding:
    """Loads seeds into the closed stores of replicas.

    Attributes:
        place: where the tables are.
        storage: where the replicas' rows are.
        reader: asks the broker about changelogs.
        clock: for the age of seeds.
    """

    place: SeedTables
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
            try:
                loaded += self._of_store(store, topic, [replica for replica, _ in group])
            except (StateError, ImportError) as error:  # without deltalake there are no tables to read
                log.warning("replicas_not_seeded", store=store, error=str(error))
            except Exception:
                log.exception("replicas_not_seeded", store=store)
        return loaded

    def _of_store(self, store: str, topic: str, replicas: list[ReplicaId]) -> list[ReplicaId]:
        # Imported here: the reader of Delta tables is an extra.
        from storekeeper.snapshots.seal import SealedTable  # noqa: PLC0415
        from storekeeper.snapshots.seeds import newest_seed  # noqa: PLC0415

        name = store_of(store)
        table = newest_seed(
            SealedTable(location(self.place.tables) / name, location(self.place.seals) / f"{name}.json")
        )
        if table is None:
            return []
        facts = self.reader.facts(topic)
        chosen: dict[int, tuple[ReplicaId, Checkpoint]] = {}
        for replica in replicas:
            state = self.reader.log_state(facts, replica.partition)
            seed, now_ms = table.of(replica.partition), self.clock.now_ms()
            position = self._position(replica, state)
            if seed is None or position is None:
                continue
            refusal = seed_refusal(seed, state, position=position, now_ms=now_ms)
            if refusal is not None:
                log.info("replica_not_seeded", replica=str(replica), why=refusal.value)
                continue
            checkpoint = Checkpoint(topic, seed.topic_id, replica.partition, seed.offset, seed.whole_at_ms)
            chosen[replica.partition] = replica, checkpoint.moved(seed.offset, source=table.source)
        stores: dict[int, BytesStore] = {}
        try:
            for partition, (replica, _) in chosen.items():
                self.storage.wipe(replica)
                stores[partition] = self.storage.open(replica)
            for partition, entries in table.rows(chosen) if chosen else ():
                stores[partition].write(entries)
            # Last, so that a store which a crash leaves half loaded has rows without a checkpoint, and is emptied.
            for partition, (replica, checkpoint) in chosen.items():
                stores[partition].write((), {METADATA_KEY: checkpoint.encode()})
                log.info("replica_seeded", replica=str(replica), offset=checkpoint.offset)
        finally:
            for opened in stores.values():
                opened.close()
        return [replica for replica, _ in chosen.values()]

    def _position(self, replica: ReplicaId, state: LogState) -> int | None:
        """Where the replica would be read on without a seed; None if its rows may be the last copy, and must stay."""
        opened = self.storage.open(replica)
        try:
            stored = opened.metadata(METADATA_KEY)
        finally:
            opened.close()
        if stored is None:
            return state.start_offset
        checkpoint = Checkpoint.decode(stored)
        return checkpoint.offset if checkpoint.topic_id == state.topic_id else None
