"""The rows of a store now: its changelog up to one cut, on top of its sealed table where that can be built on.

The cut is the end of what is committed in each partition, all looked up at once. The log's cleaner goes on meanwhile:
it may take a record in front of the cut for one behind it, before it is read. Then the rows at the cut can't be known
any more. So a read looks for newer changes at its end; if there are any, the log must still have every record that
was written in front of the cut since the table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.restore import LogState, Seed, SeedRefusal, seed_refusal
from storekeeper.changelog.scan import Changelog
from storekeeper.errors import ChangelogError, NotExactError
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import KeyRanges, changes_in, in_ranges_sql, quoted
from storekeeper.snapshots.columns import derived_columns, snapshot_schema, values_of
from storekeeper.snapshots.delta_log import VerifiedVersion, open_table
from storekeeper.snapshots.duck import Scan, folding
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.seeds import TableSeed

_BATCH_ROWS = 16_384
_RECORD = pa.schema([
    ("_offset", pa.int64()), ("_timestamp_ms", pa.int64()), ("_key", pa.binary()), ("_value", pa.binary()),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is read of a partition: the records with `start <= offset < end`; before them the table, if `from_table`."""

    start: int
    end: int
    from_table: bool


@dataclass(frozen=True, slots=True)
class RowsNow:
    """The rows at one cut, to be read by tasks.

    Attributes:
        store: the store, in the live generation of its app.
        settings: those of that generation.
        columns: the columns that follow from values, SQL type by name.
        topic_id: the broker's id of the changelog.
        path: the folder of the store's table.
        version: the version of the table that is read, if any is.
        stretches: what is read, by partition.
    """

    store: StoreSpec
    settings: AppSettings
    columns: Mapping[str, str]
    topic_id: str
    path: Location
    version: int
    stretches: Mapping[int, Stretch]

    def rows(self, partition: int, ranges: KeyRanges | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, with the columns of the store's table; those in key ranges alone, if any are given.

        Raises:
            NotExactError: the rows at the cut can't be known any more.
            ChangelogError: the changelog was deleted or recreated.
            BrokerUnavailableError, StorageError: something can't be read now.
        """
        stretch, log = self.stretches[partition], self._log()
        with folding(self.path) as database:
            database.execute("CREATE TEMP TABLE tail (_offset BIGINT, _timestamp_ms BIGINT, _key BLOB, _value BLOB)")
            for records in _in_batches(log.scan(partition, stretch.start, stretch.end), _wanted(ranges)):
                database.register("records", pa.Table.from_batches([records]))
                database.execute("INSERT INTO tail FROM records")
            self._check_exact(log, partition, _wanted(ranges))
            newest = "SELECT max(_offset) AS _offset FROM tail GROUP BY _key"
            database.execute(f"CREATE TEMP TABLE newest AS FROM tail SEMI JOIN ({newest}) USING (_offset)")
            if stretch.from_table:
                yield from self._of_table(database, partition, ranges)
            yield from self._of_log(database, partition)

    def _log(self) -> Changelog:
        log = Changelog(self.settings.kafka, self.store.changelog_topic)
        if log.facts.topic_id != self.topic_id:
            msg = f"changelog {log.topic} was deleted and recreated while it was read: read again"
            raise ChangelogError(msg)
        return log

    def _check_exact(self, log: Changelog, partition: int, wanted: Callable[[bytes], bool]) -> None:
        stretch = self.stretches[partition]
        newer = log.scan(partition, stretch.end, max(stretch.end, log.stable_end(partition)))
        if not any(record.key is not None and wanted(record.key) for record in newer):
            return
        if not log.is_whole(partition, stretch.start, stretch.end):
            msg = (
                f"the rows of {self.store.name} can't be known exactly: rows change while they are read, and changelog "
                f"{log.topic} was compacted behind the last snapshot. Take one with `storekeeper snapshot create "
                f"{self.store.name}`, then read again"
            )
            raise NotExactError(msg)

    def _of_table(
        self, database: duckdb.DuckDBPyConnection, partition: int, ranges: KeyRanges | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the table that have not changed since."""
        schema, named, base = snapshot_schema(self.columns), [f"_partition = {partition}"], "base"
        if ranges is not None:
            named.append(f"({changes_in(ranges)})")
            database.register("ranges", ranges_table(ranges))
            base = in_ranges_sql(base, "ranges")
        database.register("base", Scan(open_table(self.path, self.version), " AND ".join(named)))
        kept = f"SELECT {', '.join(map(quoted, schema.names))} FROM {base} ANTI JOIN newest USING (_key)"  # noqa: S608 (names are quoted)
        for batch in database.sql(kept).to_arrow_reader(_BATCH_ROWS):
            yield batch.cast(schema)

    def _of_log(self, database: duckdb.DuckDBPyConnection, partition: int) -> Iterator[pa.RecordBatch]:
        """The rows that have changed since."""
        schema, read = snapshot_schema(self.columns), values_of(self.store, self.settings).reader()
        there = f"SELECT {', '.join(_RECORD.names)} FROM newest WHERE _value IS NOT NULL"  # noqa: S608 (constants)
        for batch in database.sql(there).to_arrow_reader(_BATCH_ROWS):
            derived = derived_columns(batch["_value"].to_pylist(), self.columns, read)
            places = pa.array([partition] * batch.num_rows, pa.int32())
            yield pa.record_batch([*derived, places, *batch.cast(_RECORD).columns], schema=schema)


def rows_now(store: StoreSpec, settings: AppSettings, now_ms: int) -> RowsNow:
    """The rows of a store at the cut of now.

    Raises:
        ChangelogError: there is no changelog, or it has lost records that no table has.
        SnapshotDamagedError: the table is not as it was sealed.
        OpenTransactionError, BrokerUnavailableError: the changelog can't be read now.
    """
    log = Changelog(settings.kafka, store.changelog_topic)
    sealed = SealedTable.of(settings, store.table_name)
    verified = table_below(store, sealed)
    columns = columns_now(store, settings, verified)
    seed = None if verified is None or dict(verified.manifest.columns) != columns else TableSeed(sealed.path, verified)
    stretches = {}
    for partition, end in log.committed_ends().items():
        state = LogState(
            log.topic, log.facts.topic_id, partition, log.first(partition), end, log.facts.delete_retention_ms
        )
        stretches[partition] = _stretch(None if seed is None else seed.of_any_version(partition), state, now_ms)
    version = 0 if verified is None else verified.version
    return RowsNow(store, settings, columns, log.facts.topic_id, sealed.path, version, stretches)


def table_below(store: StoreSpec, sealed: SealedTable) -> VerifiedVersion | None:
    """The newest version of a store's table; None without one, or if it is of another generation's changelog.

    Raises:
        SnapshotDamagedError: the table is not as it was sealed.
    """
    seal = sealed.current()
    verified = None if seal is None else seal.verified
    return verified if verified is not None and verified.manifest.changelog_topic == store.changelog_topic else None


def columns_now(store: StoreSpec, settings: AppSettings, verified: VerifiedVersion | None) -> dict[str, str]:
    """The columns that follow from a store's values, SQL type by name: those that its next snapshot would have."""
    return values_of(store, settings).following({} if verified is None else verified.manifest.columns)


def _stretch(seed: Seed | None, log: LogState, now_ms: int) -> Stretch:
    """What to read of a partition: as a replica would restore it."""
    if seed is not None:
        refused = seed_refusal(seed, log, position=log.start_offset, now_ms=now_ms)
        if refused in {None, SeedRefusal.NO_GAIN}:
            return Stretch(seed.offset, log.end_offset, from_table=True)
    if log.start_offset > 0:  # compaction doesn't move the first offset
        msg = (
            f"{log.topic}-{log.partition} begins at {log.start_offset}: its first records were deleted, and no table "
            "has them. Read the rows of a time, by the option asOf"
        )
        raise ChangelogError(msg)
    return Stretch(0, log.end_offset, from_table=False)


def ranges_table(ranges: KeyRanges) -> pa.Table:
    """Key ranges as `in_ranges_sql` takes them."""
    starts, stops = zip(*ranges, strict=True) if ranges else ((), ())
    return pa.table([pa.array(starts, pa.binary()), pa.array(stops, pa.binary())], names=["_first", "_stop"])


def _wanted(ranges: KeyRanges | None) -> Callable[[bytes], bool]:
    ordered = sorted(ranges or ())
    starts = [start for start, _ in ordered]

    def wanted(key: bytes) -> bool:
        at = bisect_right(starts, key) - 1  # the ranges of two keys have nothing in common
        return ranges is None or (at >= 0 and key < ordered[at][1])

    return wanted


def _in_batches(records: Iterator[LogRecord], wanted: Callable[[bytes], bool]) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[int, int, bytes, bytes | None]] = []
    for record in records:
        if record.key is not None and wanted(record.key):
            rows.append((record.offset, record.timestamp_ms, record.key, record.value))
            if len(rows) == _BATCH_ROWS:
                yield _as_columns(rows)
                rows = []
    if rows:
        yield _as_columns(rows)


def _as_columns(rows: Sequence[tuple[int, int, bytes, bytes | None]]) -> pa.RecordBatch:
    cells = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(cells, _RECORD, strict=True)], _RECORD
    )
