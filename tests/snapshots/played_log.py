"""A changelog in memory, whose app, clean-ups and log cleaner a test plays; and what the store was at each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.headers import CHANGES, ChangelogHeaders
from storekeeper.changelog.log_record import CleanupAction, Headers, LogRecord, cleanup_headers
from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.engine.runtime.checkpoint import CommittedBatch
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.append import Appending
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.snapshots.fold import Current
from storekeeper.snapshots.history import HistoryManifest
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.verification.histories import HistoryCopy
from tests.snapshot_tables import sealed_at

PARTITIONS = 2
TOMBSTONES_MS = 86_400_000
STORE = StoreSpec("words", "app", (ValueField("Word", "string"),))


def _of_word(word: str) -> bytes:
    return b'{"Word":"%s"}' % word.encode()


@dataclass
class PlayedLog(Changelog):
    """A topic. Each transaction ends with a mark, which takes an offset and is no record.

    Attributes:
        topic: its name.
        generation: that of its app.
        row_key: the key of a row, by its name in the test.
        logs: the records by partition and offset.
        ends: the end of each partition.
        totals: how many changes batches have written to each.
        partitions: their numbers.
        timestamp_ms: the event time of the records to come.
        row_value: its value, by what the test writes.
    """

    topic: str
    generation: int = 1
    row_key: Callable[[str], bytes] = str.encode
    logs: dict[int, dict[int, LogRecord]] = field(default_factory=lambda: {at: {} for at in range(PARTITIONS)})
    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    totals: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    partitions: range = range(PARTITIONS)
    timestamp_ms: int = 7
    row_value: Callable[[str], bytes] = _of_word

    def committed(self, partition: int) -> tuple[int, int]:
        return 0, self.ends[partition]

    def stable_end(self, partition: int) -> int:
        return self.ends[partition]

    def scan(self, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        return (record for at, record in sorted(self.logs[partition].items()) if start <= at < end)

    def batch(self, batch_id: int, at_ms: int, changes: Mapping[str, str | None]) -> None:
        """A batch's changes, those of each partition in a transaction."""
        headers = ChangelogHeaders(self.generation, batch_id, at_ms, {}).encode()
        for partition in self.partitions:
            own = [key for key in changes if partition_of(key) == partition]
            self.totals[partition] += len(own)
            for key in own:
                last = [(CHANGES, b"%d" % self.totals[partition])] if key == own[-1] else []
                self._put(partition, key, changes[key], [*headers, *last])
            self.ends[partition] += bool(own)

    def cleanup(self, key: str, at_ms: int) -> None:
        """A tombstone of a clean-up, with the headers of some older record."""
        headers = ChangelogHeaders(self.generation, 0, 1, {}).encode()
        self._put(partition_of(key), key, None, cleanup_headers(headers, "c", CleanupAction.DELETE, at_ms))
        self.ends[partition_of(key)] += 1

    def seed(self, at_ms: int, content: Mapping[str, str]) -> None:
        """The rows that a generation begins with."""
        headers = ChangelogHeaders(self.generation, 0, at_ms, {}).encode()
        for key, word in content.items():
            self._put(partition_of(key), key, word, headers)
            self.totals[partition_of(key)] += 1

    def replaced(self) -> list[tuple[int, int]]:
        """The records that the log cleaner may remove: each has a newer one of its key.

        Not for a clean-up's: it deletes rows that no batch has changed for long, which are in the history by then. And
        not a clean-up's own: nothing counts these, so a history must have read them before.
        """
        found = []
        for partition, log in self.logs.items():
            newest = {record.key: at for at, record in sorted(log.items()) if not record.is_of_cleanup}
            batches = ((at, record) for at, record in log.items() if not record.is_of_cleanup)
            found += [(partition, at) for at, record in batches if newest.get(record.key, at) > at]
        return found

    def remove(self, place: tuple[int, int]) -> None:
        del self.logs[place[0]][place[1]]

    def forget_deletions(self) -> None:
        """What the log cleaner does once tombstones are old."""
        for log in self.logs.values():
            newest = {record.key: at for at, record in sorted(log.items())}
            for at in [at for at, record in log.items() if newest[record.key] != at]:
                del log[at]
            for at in [at for at, record in log.items() if record.value is None]:
                del log[at]

    def _put(self, partition: int, key: str, word: str | None, headers: Headers) -> None:
        value = None if word is None else self.row_value(word)
        at = self.ends[partition]
        self.logs[partition][at] = LogRecord(at, self.timestamp_ms, self.row_key(key), value, headers)
        self.ends[partition] += 1


def partition_of(key: str) -> int:
    return ord(key[0]) % PARTITIONS


@dataclass
class PlayedStore:
    """A store whose snapshots are taken of a played log."""

    root: Path
    log: PlayedLog
    store: StoreSpec = STORE
    now_ms: int = 1_760_000_000_000
    tombstones_ms: int = TOMBSTONES_MS
    changelog_id: str = "id-1"
    live_from: int = 0

    def entry(self, suffix: str = "") -> Entry:
        sealed = sealed_at(self.root / f"words{suffix}")
        return Entry(sealed.path.name, sealed.path, "Words.", {"Word": "The word."}, "words@snapshot", sealed)

    def append(self, batch: CommittedBatch, planned: int) -> HistoryManifest:
        current = Current(self.store, self.entry(), values_of(self.store, AppSettings()))
        appending = Appending(
            self.store,
            self.entry(HISTORY),
            self.log,
            current.values,
            lambda: {batch.generation: planned},
            self.tombstones_ms,
            self.now_ms,
            self.changelog_id,
            self.live_from,
        )
        return appending.upto(batch, floor_ms=0 if current.verified is None else current.verified.manifest.batch_ms)

    def fold(self, history: HistoryManifest) -> tuple[SnapshotManifest, int | None]:
        return Current(self.store, self.entry(), values_of(self.store, AppSettings())).follow(history)

    def take(self, batch: CommittedBatch, planned: int) -> tuple[SnapshotManifest, int | None]:
        return self.fold(self.append(batch, planned))

    def flaws(self) -> list[str]:
        """What verification finds wrong with the history, and with the table that is folded from it."""
        table, values = self.entry().path, values_of(self.store, AppSettings())
        copy = HistoryCopy(self.entry(HISTORY).path, self.log, values, table, newest_manifest(table))
        return list(copy.flaws())


def batch_of(generation: int, batch_id: int, at_ms: int) -> CommittedBatch:
    return CommittedBatch(generation, batch_id, Position({"pos": {0: batch_id}}), at_ms)
