"""An app whose part a test plays: it writes a store's changelog, and the product takes snapshots of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deltalake import DeltaTable

from harness.broker import Broker
from harness.changelog_writer import KafkaChangelogWriter
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec, StoreSpec
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint, CommittedBatch
from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import Location
from storekeeper.snapshots.columns import PLACE_COLUMNS, values_of
from storekeeper.snapshots.job import Snapshot
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import prove
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.row_digest import row_hash
from storekeeper.verification.copies import verify_copies
from storekeeper.verification.snapshot_copies import SnapshotCopies
from tests.changelog.bad_records import Kind, write_kinds
from tests.local_tables import local_table

PARTITIONS = 4
"""Of the changelog, by default."""


@dataclass
class App:
    """Plays an app with one store: writes batches to its changelog, and commits them in its checkpoint."""

    broker: Broker
    settings: AppSettings
    store: StoreSpec
    encode: Callable[[str], bytes] = lambda word: b'{"Word":"%s","At":1500}' % word.encode()
    row_keys: Callable[[str], Sequence[bytes]] = lambda key: (key.encode(),)
    """The rows that a key has, in the partition of the key."""
    content: dict[bytes, bytes] = field(default_factory=dict)
    now_ms: int = 1_760_000_000_000

    def write(self, batch_id: int, changes: Mapping[str, str | None], *, generation: int = 1) -> None:
        """Writes a batch's changes: words by key, None deletes."""
        rows: dict[bytes, bytes | None] = {}
        places = dict[bytes, int]()
        for key, word in changes.items():
            for row_key in self.row_keys(key):
                rows[row_key] = None if word is None else self.encode(word)
                places[row_key] = partition_for(key.encode(), PARTITIONS)
        self._plan(batch_id, generation)
        headers = ChangelogHeaders(generation, batch_id, time_of(batch_id, generation), {"pos": {0: (0, batch_id)}})
        with KafkaChangelogWriter(self.broker.bootstrap, self.store.changelog_topic) as writer:
            writer.write(rows.items(), headers, places)
        for row_key, value in rows.items():
            if value is None:
                self.content.pop(row_key, None)
            else:
                self.content[row_key] = value

    def write_kinds(self, kinds: Sequence[Kind]) -> None:
        """Writes records that somebody else might write."""
        write_kinds(self.broker.bootstrap, self.store.changelog_topic, kinds)

    def commit(self, batch_id: int) -> None:
        """Finishes a batch, whose input ends at ten times its number."""
        path = self._plan(batch_id, self.settings.generation)
        BatchCheckpoint(path).commit(batch_id)

    def _plan(self, batch_id: int, generation: int) -> Location:
        """Begins a batch as Spark does; returns the checkpoint."""
        path = self.settings.model_copy(update={"generation": generation}).checkpoint_dir(self.store.app)
        start, end = (Position({"pos": {0: batch * 10}}) for batch in (max(0, batch_id - 1), batch_id))
        BatchCheckpoint(path).plan(batch_id, start, end, time_of(batch_id, generation))
        return path

    def snapshot(self, *, fold: bool = True) -> tuple[SnapshotManifest, int | None]:
        app = AppSpec(self.store.app, "Words of a test", lambda _: (), lambda _: (), stores=(self.store,))
        batch = CommittedBatch.of(
            BatchCheckpoint(self.settings.checkpoint_dir(self.store.app)), self.settings.generation
        )
        return Snapshot(self.settings, self.store, app, now_ms=self.now_ms).take(batch, fold=fold)

    def rows(self) -> dict[bytes, bytes]:
        """The table, by key."""
        table = DeltaTable(local_table(self.settings, self.store.name)).to_pyarrow_table(columns=["_key", "_value"])
        return dict(zip(*table.to_pydict().values(), strict=True))

    def comments(self) -> dict[str, str]:
        """What the table says about itself, under an empty name, and about each of its columns."""
        table = DeltaTable(local_table(self.settings, self.store.name))
        said = {item.name: item.metadata.get("comment", "") for item in table.schema().fields}
        return {"": table.metadata().description or ""} | said

    def check(self, manifest: SnapshotManifest) -> None:
        """The table and its manifest are the content."""
        assert self.rows() == self.content
        assert manifest.row_count == len(self.content)
        table = DeltaTable(local_table(self.settings, self.store.name)).to_pyarrow_table(columns=list(PLACE_COLUMNS))
        columns = table.to_pydict().values()
        rows = [row_hash(key, value, offset, at) for _, offset, at, key, value in zip(*columns, strict=True)]
        assert sum(manifest.digests.values()) % 2**64 == sum(rows) % 2**64


def time_of(batch_id: int, generation: int) -> int:
    return 1_750_000_000_000 + 1_000 * generation + batch_id


def proven(app: App) -> tuple[str, ...]:
    """What is wrong with the table, or how it differs from the changelog."""
    sealed = SealedTable.of(app.settings, app.store.name)
    wrong: tuple[str, ...] = ()
    try:
        sealed.current(whole=True)
    except SnapshotDamagedError as error:
        wrong = (str(error),)
    shown = sealed.shown()
    assert shown is not None
    copies = SnapshotCopies(sealed.path, prove(sealed.path, shown, values_of(app.store, app.settings)))
    changelog = Changelog(app.broker.kafka, app.store.changelog_topic)
    return (*wrong, *copies.flaws, *verify_copies(changelog, copies.of_partition).reasons)
