"""Proving that a store's history is what its changelog holds, and that its table is the fold of the history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from storekeeper.changelog.headers import BATCH_TIME
from storekeeper.changelog.log_record import LogRecord
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import changes_after, quoted
from storekeeper.snapshots.delta_log import open_table
from storekeeper.snapshots.duck import folding
from storekeeper.snapshots.history import HistoryManifest, newest_history
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.new_changes import Log
from storekeeper.snapshots.proof import Flaw
from storekeeper.snapshots.scan import Scan
from storekeeper.stores.row_digest import row_hash

_BATCH_ROWS = 16_384
_COMPARED = "_offset, _timestamp_ms, _key, _value"


@dataclass(frozen=True)
class HistoryCopy:
    """A history beside its changelog and its table.

    Attributes:
        path: the history.
        log: the changelog.
        table: the store's table.
        snapshot: the manifest of the table's newest snapshot; None if it is not to be compared.
    """

    path: Location
    log: Log
    table: Location
    snapshot: SnapshotManifest | None

    def flaws(self) -> Iterator[str]:
        """A sentence for each difference, keys masked; none without a history of this changelog.

        Records of the changelog that the history's retention has dropped are no difference.

        Raises:
            SnapshotDamagedError: the history can't be read.
        """
        found = newest_history(self.path)
        if found is None or found.manifest.changelog_topic != self.log.topic:
            return
        manifest, noted = found.manifest, dict[str, Flaw]()
        with folding(self.path) as database:
            era = Scan(open_table(self.path, found.version), changes_after(manifest.eras[-1] - 1))
            database.register("history", era)
            database.execute(f"CREATE TEMP TABLE compared AS SELECT _partition, {_COMPARED} FROM history")  # noqa: S608
            for partition in self.log.partitions:
                rows: dict[int, tuple[bytes, int]] = {}
                wanted = f"SELECT {_COMPARED} FROM compared WHERE _partition = {partition}"  # noqa: S608 (a number)
                for batch in database.sql(wanted).to_arrow_reader(_BATCH_ROWS):
                    for offset, at_ms, key, value in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                        rows[offset] = key, _hash(LogRecord(offset, at_ms, key, value))
                for what, key in self._differences(manifest, partition, rows):
                    noted.setdefault(f"partition {partition}: {what}", Flaw()).note([key])
            if self.snapshot is not None and self.snapshot.batch_ms >= manifest.eras[-1]:
                database.register("current", Scan(open_table(self.table, self.snapshot.delta_version)))
                for (key,) in database.sql(_unfolded(self.snapshot)).fetchall():
                    noted.setdefault(f"table {self.table.name} isn't its fold", Flaw()).note([key])
        for what, flaw in noted.items():
            yield f"{self.path.name}, {what} in {flaw.rows} records{flaw.first}"

    def _differences(
        self, manifest: HistoryManifest, partition: int, rows: dict[int, tuple[bytes, int]]
    ) -> Iterator[tuple[str, bytes | None]]:
        end = manifest.changelog_offsets.get(partition, 0)
        yield from (("beyond its end", key) for offset, (key, _) in rows.items() if offset >= end)
        for record in self.log.scan(partition, self.log.committed(partition)[0], end):
            row = rows.get(record.offset)
            if row is None and not _is_old(record, manifest.exact_from_ms):
                yield "lacks what the changelog has", record.key
            elif row is not None and row[1] != _hash(record):
                yield "isn't what the changelog has", record.key


def _hash(record: LogRecord) -> int:
    return row_hash(record.key or b"", b"\0" + record.value if record.value is not None else b"", *record[:2])


def _is_old(record: LogRecord, exact_from_ms: int) -> bool:
    at_ms = next((value for name, value in record.headers if name == BATCH_TIME), None)
    return at_ms is None or int(at_ms) < exact_from_ms


def _unfolded(snapshot: SnapshotManifest) -> str:
    """The keys of rows that the fold of the history and the table don't both have."""
    ends = " ".join(f"WHEN {at} THEN {end}" for at, end in {-1: 0, **snapshot.changelog_offsets}.items())
    newest = "SELECT _partition, max(_offset) AS _offset FROM known GROUP BY _partition, _key"
    columns = ", ".join(["_partition", *map(quoted, snapshot.columns), _COMPARED])
    return (
        f"WITH known AS (SELECT * FROM history WHERE _offset < CASE _partition {ends} ELSE 0 END), "  # noqa: S608 (ours)
        f"newest AS ({newest}), shown AS (SELECT {columns} FROM current), "
        f"folded AS (SELECT {columns} FROM known SEMI JOIN newest USING (_partition, _offset) "
        "WHERE _value IS NOT NULL) "
        "SELECT _key FROM ((FROM folded EXCEPT FROM shown) UNION ALL (FROM shown EXCEPT FROM folded))"
    )
