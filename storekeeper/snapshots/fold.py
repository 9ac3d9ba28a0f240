"""A store's current table: the fold of its history, written whole in one pass, by DuckDB.

Keys are spread over all files, so each change of a table rewrites it anyway. What is read of the history are the
changes since the table was written; all of its newest era if that began since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
import structlog

from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.position import Position
from storekeeper.errors import ChangelogError
from storekeeper.snapshots.as_of import changes_after, quoted
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.columns import PLACE_COLUMNS, StoreValues, snapshot_schema
from storekeeper.snapshots.delta_log import VerifiedVersion, open_table
from storekeeper.snapshots.duck import Scan, folding
from storekeeper.snapshots.history import HistoryManifest, history_of
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import check_proven
from storekeeper.snapshots.table_writer import TableWriter
from storekeeper.stores.row_digest import moved, row_hash

WRITER = "storekeeper.snapshots"
_BATCH_ROWS = 16_384
_HASHED = "_partition, _key, _value, _offset, _timestamp_ms"

_log = structlog.get_logger(__name__)


@dataclass
class Current:
    """The current table of a store. Hold its lease.

    Attributes:
        store: the store, in the live generation of its app.
        entry: its table.
        values: its values.
    """

    store: StoreSpec
    entry: Entry
    values: StoreValues

    def __post_init__(self) -> None:
        assert self.entry.sealed is not None  # noqa: S101 (every table of a store has a seal)
        self.verified = self.entry.sealed.to_build_on(self._check_proven)
        self._writer = TableWriter(self.entry)

    def create(self, generation: int, topic: str, offsets: Mapping[int, int]) -> SnapshotManifest:
        """Makes the empty table of an app that has not finished a batch, unless there is one; returns its manifest."""
        if self.verified is not None:
            return self.verified.manifest
        manifest = self._empty(generation, topic, offsets)
        self._write(iter(()), manifest)
        return manifest

    def follow(self, history: HistoryManifest) -> tuple[SnapshotManifest, int | None]:
        """Folds the history up to its end; the newest manifest, and how many keys changed: None without a commit.

        Raises:
            SnapshotDamagedError: the table isn't as the last snapshot left it.
            ChangelogError: no value is as the store declares it.
        """
        empty = self._empty(history.generation, history.changelog_topic, {})
        before = empty if self.verified is None else self.verified.manifest
        anew = self.verified is None or before.batch_ms < history.eras[-1]
        anew = anew or dict(before.columns) != dict(history.columns)
        if anew:
            before = replace(empty, columns=history.columns)
        with folding(self.entry.path) as database:
            self._read_changes(database, max(history.eras[-1], before.batch_ms + 1), before.changelog_offsets)
            changed = _one(database, "SELECT count(*) FROM changes")[0]
            if not changed and not anew:
                return before, None
            if not anew:
                database.register("table", Scan(open_table(self.entry.path)))
                database.execute('CREATE TEMP TABLE current AS FROM "table"')
            self._check_fields(database, history.columns, first=not before.row_count)
            manifest = self._manifest(database, before, history, anew=anew)
            self._write(_rows(database, manifest.columns, kept=not anew), manifest)
        _log.info("snapshot", store=self.store.name, version=manifest.delta_version, rows=manifest.row_count)
        return manifest, changed

    def _check_proven(self, verified: VerifiedVersion) -> None:
        """Proves a snapshot of this generation. Another generation's is replaced as a whole."""
        if verified.manifest.changelog_topic == self.store.changelog_topic:
            check_proven(self.entry.path, verified, self.values)

    def _read_changes(self, database: duckdb.DuckDBPyConnection, from_ms: int, offsets: Mapping[int, int]) -> None:
        """The newest change of each key, of those since a time and from some offsets on."""
        database.register("history", Scan(open_table(history_of(self.entry.path)), changes_after(from_ms - 1)))
        before = " ".join(f"WHEN {partition} THEN {offset}" for partition, offset in {-1: 0, **offsets}.items())
        stretch = f"SELECT * FROM history WHERE _offset >= CASE _partition {before} ELSE 0 END"  # noqa: S608 (numbers)
        newest = "SELECT _partition, max(_offset) AS _offset FROM stretch GROUP BY _partition, _key"
        database.execute(  # names and numbers of ours
            f"CREATE TEMP TABLE changes AS WITH stretch AS ({stretch}), newest AS ({newest}) "  # noqa: S608
            "SELECT stretch.* FROM stretch SEMI JOIN newest USING (_partition, _offset)"
        )

    def _manifest(
        self, database: duckdb.DuckDBPyConnection, before: SnapshotManifest, history: HistoryManifest, *, anew: bool
    ) -> SnapshotManifest:
        digests, rows = dict.fromkeys(history.changelog_offsets, 0) | dict(before.digests), before.row_count
        removed = f"SELECT {_HASHED} FROM current SEMI JOIN changes USING (_partition, _key)"  # noqa: S608 (constants)
        added = f"SELECT {_HASHED} FROM changes WHERE _value IS NOT NULL"  # noqa: S608 (constants)
        for sign, sql in ((1, added), *([] if anew else [(-1, removed)])):
            for batch in database.sql(sql).to_arrow_reader(_BATCH_ROWS):
                rows += sign * batch.num_rows
                for partition, key, value, offset, at_ms in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    total = sign * row_hash(key, value, offset, at_ms)
                    digests[partition] = moved(digests.get(partition, 0), added=total, removed=0)
        others = f"count(*) FILTER (_schema_version IS DISTINCT FROM {self.store.schema_version})"
        other_rows, *_ = _one(database, f"SELECT {others} FROM changes WHERE _value IS NOT NULL")  # noqa: S608 (a number)
        return replace(
            before,
            generation=history.generation,
            schema_version=self.store.schema_version,
            changelog_topic=history.changelog_topic,
            changelog_offsets=dict(history.changelog_offsets),
            source_offsets=history.source_offsets,
            row_count=rows,
            digests=digests,
            delta_version=self._writer.next_version,
            columns=history.columns,
            batch_ms=history.exact_to_ms,
            kind=self.store.kind,
            score_field=self.store.score_field,
            changelog_id=history.changelog_id,
            one_version=(anew or before.one_version) and not other_rows,
        )

    def _write(self, rows: Iterator[pa.RecordBatch], manifest: SnapshotManifest) -> None:
        self._writer.write(rows, snapshot_schema(manifest.columns), manifest.to_json(), mode="overwrite")
        self.verified = VerifiedVersion(manifest.delta_version, manifest)

    def _check_fields(self, database: duckdb.DuckDBPyConnection, columns: Mapping[str, str], *, first: bool) -> None:
        """Logs values that aren't as declared: their rows are kept, with nulls for what can't be read.

        If no value of the first snapshot is as declared, the declaration is wrong, and the snapshot is refused.
        """
        owed = [item.name for item in self.store.value_fields if not item.nullable and item.name in columns]
        incomplete = " OR ".join(["false", *(f"{quoted(name)} IS NULL" for name in owed)])
        rows, odd, partition, offset = _one(database, (
            f"SELECT count(*), count(*) FILTER ({incomplete}), "  # noqa: S608 (names are quoted)
            f"arg_min(_partition, (_partition, _offset)) FILTER ({incomplete}), "
            f"arg_min(_offset, (_partition, _offset)) FILTER ({incomplete}) FROM changes WHERE _value IS NOT NULL"
        ))  # fmt: skip
        if not odd:
            return
        topic, store = self.store.changelog_topic, self.store.name
        if first and odd == rows:
            msg = (
                f"{topic} partition {partition} offset {offset} is not a value of store "
                f"{store} as declared, and neither is any other: correct the store's value fields"
            )
            raise ChangelogError(msg)
        _log.warning(
            "snapshot_values_not_as_declared", store=store, topic=topic, rows=odd, partition=partition, offset=offset
        )

    def _empty(self, generation: int, topic: str, offsets: Mapping[int, int]) -> SnapshotManifest:
        return SnapshotManifest(
            store=self.store.name,
            app=self.store.app,
            generation=generation,
            schema_version=self.store.schema_version,
            changelog_topic=topic,
            changelog_offsets=dict(offsets),
            source_offsets=Position(),
            row_count=0,
            digests=dict.fromkeys(offsets, 0),
            writer=WRITER,
            delta_version=0,
            columns=self.values.following({}),
            by_schema=self.store.by_schema,
            kind=self.store.kind,
            score_field=self.store.score_field,
        )


def _rows(database: duckdb.DuckDBPyConnection, columns: Mapping[str, str], *, kept: bool) -> Iterator[pa.RecordBatch]:
    """The rows that the table is to have; `kept`: with those that no change concerns."""
    shown, schema = ", ".join(map(quoted, {**columns, **PLACE_COLUMNS})), snapshot_schema(columns)
    sql = f"SELECT {shown} FROM changes WHERE _value IS NOT NULL"  # noqa: S608 (names are quoted)
    if kept:
        sql += f" UNION ALL SELECT {shown} FROM current ANTI JOIN changes USING (_partition, _key)"  # noqa: S608
    for batch in database.sql(sql).to_arrow_reader(_BATCH_ROWS):
        yield batch.cast(schema)


def _one(database: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, ...]:
    (found,) = database.execute(sql).fetchall()
    return found
