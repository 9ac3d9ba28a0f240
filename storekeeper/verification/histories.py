"""Proving that a store's history is what its changelog holds, and that its table is the fold of the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import duckdb
import pyarrow as pa

from storekeeper.changelog.log_record import Headers, LogRecord
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import DAY_MS
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import changes_after, quoted
from storekeeper.snapshots.columns import StoreValues, derived_columns
from storekeeper.snapshots.delta_log import open_table
from storekeeper.snapshots.duck import Scan, folding
from storekeeper.snapshots.history import HistoryManifest, history_schema, newest_history
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.new_changes import Mark
from storekeeper.snapshots.proof import Flaw, differing
from storekeeper.verification.commit_times import CommitTimes

_BATCH_ROWS = 16_384
_FOLDED = "_offset, _timestamp_ms, _key, _value"
_OF_RECORD = ("_key", "_value", "_timestamp_ms", "_schema_version", "_generation", "_batch", "_batch_ms")
_ALIKE = "isn't what the changelog has"


@dataclass(frozen=True)
class HistoryCopy:
    """A history beside its changelog and its table.

    Attributes:
        path: the history.
        log: the changelog.
        values: the store's values.
        table: the store's table.
        snapshot: the manifest of the table's newest snapshot; None if it is not to be compared.
    """

    path: Location
    log: Changelog
    values: StoreValues
    table: Location
    snapshot: SnapshotManifest | None

    def flaws(self) -> Iterator[str]:
        """A sentence for each difference, keys masked; none without a history of this changelog.

        What the changelog no longer has is not compared: records that the history's retention has dropped are no
        difference, and older eras are as they were sealed.

        Raises:
            SnapshotDamagedError: the history can't be read.
            SchemaRegistryUnavailableError: the values are by schemas, and the registry doesn't answer.
        """
        found = newest_history(self.path)
        if found is None or found.manifest.changelog_topic != self.log.topic:
            return
        manifest, noted = found.manifest, dict[str, Flaw]()
        with folding(self.path) as database:
            era = Scan(open_table(self.path, found.version), changes_after(manifest.eras[-1] - 1))
            database.register("history", era)
            database.execute("CREATE TEMP TABLE compared AS FROM history")
            for what, condition in _misplaced(manifest, self.log.partitions):
                for (key,) in database.sql(f"SELECT _key FROM compared WHERE {condition}").fetchall():  # noqa: S608 (ours)
                    noted.setdefault(what, Flaw()).note([key])
            for partition in self.log.partitions:
                compared = _Partition(self, manifest, partition)
                for what, key in compared.differences(database):
                    noted.setdefault(f"partition {partition}: {what}", Flaw()).note([key])
            if self.snapshot is not None and self.snapshot.batch_ms >= manifest.eras[-1]:
                database.register("current", Scan(open_table(self.table, self.snapshot.delta_version)))
                for (key,) in database.sql(_unfolded(self.snapshot)).fetchall():
                    noted.setdefault(f"table {self.table.name} isn't its fold", Flaw()).note([key])
        for what, flaw in noted.items():
            yield f"{self.path.name}, {what} in {flaw.rows} records{flaw.first}"


class _Partition:
    """The rows of a partition beside its records, both in the order of their offsets."""

    def __init__(self, copy: HistoryCopy, manifest: HistoryManifest, partition: int) -> None:
        self._copy = copy
        self._manifest = manifest
        self._partition = partition
        self._end = manifest.changelog_offsets.get(partition, 0)
        self._records = copy.log.scan(partition, copy.log.committed(partition)[0], self._end)
        self._next = next(self._records, None)
        self._read = copy.values.reader()
        self._headers: Headers | None = None
        self._mark = Mark(by_cleanup=False)
        self._last: tuple[int, int] | None = None

    @cached_property
    def _times(self) -> CommitTimes:
        return CommitTimes.of(self._copy.path)

    def differences(self, database: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, bytes | None]]:
        """What is wrong with a record, and its key."""
        schema = history_schema(self._manifest.columns)
        wanted = (
            f"SELECT {', '.join(map(quoted, schema.names))} FROM compared "  # noqa: S608 (names are quoted)
            f"WHERE _partition = {self._partition} AND _offset IS NOT NULL ORDER BY _offset"
        )
        newest = -1
        for batch in database.sql(wanted).to_arrow_reader(_BATCH_ROWS):
            places, records = list[int](), list[LogRecord]()
            for place, offset in enumerate(batch["_offset"].to_pylist()):
                if offset == newest:
                    yield "has a record twice", batch["_key"][place].as_py()
                    continue
                newest = offset
                if offset >= self._end:
                    yield "goes beyond its end", batch["_key"][place].as_py()
                yield from self._lacking(offset)
                if self._next is not None and self._next.offset == offset:
                    places.append(place)
                    records.append(self._next)
                    self._next = next(self._records, None)
            yield from self._unlike(batch.take(pa.array(places, pa.int64())).cast(schema), records)
        yield from self._lacking(self._end)
        # Of changes behind the newest one that were erased, no record says any more how many there were.
        erased_to = self._manifest.erased.get(self._partition, 0)
        if self._last is not None and erased_to <= self._last[0] == newest and self._last[1] != self._total:
            yield "counts other changes than the changelog", None

    @property
    def _total(self) -> int:
        return self._manifest.totals.get(self._partition, 0)

    def _lacking(self, offset: int) -> Iterator[tuple[str, bytes | None]]:
        """The records before an offset, which the rows before it don't have."""
        while self._next is not None and self._next.offset < offset:
            at_ms = Mark.of(self._next.headers).at_ms
            if at_ms is not None and at_ms >= self._manifest.exact_from_ms:  # else retention may have dropped it
                yield "lacks what the changelog has", self._next.key
            self._next = next(self._records, None)

    def _unlike(self, rows: pa.RecordBatch, records: Sequence[LogRecord]) -> Iterator[tuple[str, bytes | None]]:
        columns = (rows[name].to_pylist() for name in _OF_RECORD)
        for (*row, at_ms), record in zip(zip(*columns, strict=True), records, strict=True):
            mark = self._mark_of(record)
            logged = [record.key, record.value, record.timestamp_ms, mark.schema_version, mark.generation, mark.batch]
            if row != logged:
                yield _ALIKE, record.key
            elif mark.at_ms != at_ms and not self._times.gave(at_ms, self._partition, record.offset, mark):
                yield "has another time than its batch", record.key
            if mark.changes is not None and mark.is_of_batch(self._manifest.generation):
                is_kept = at_ms is not None and at_ms >= self._manifest.exact_from_ms
                self._last = (record.offset, mark.changes) if is_kept else None
        derived = derived_columns([record.value for record in records], self._manifest.columns, self._read)
        for name, expected in zip(self._manifest.columns, derived, strict=True):
            for place in differing(rows[name], expected):
                yield f"column {name} isn't what the value says", records[place].key

    def _mark_of(self, record: LogRecord) -> Mark:
        if record.headers != self._headers:
            self._headers, self._mark = record.headers, Mark.of(record.headers)
        return self._mark


def _misplaced(manifest: HistoryManifest, partitions: range) -> Iterator[tuple[str, str]]:
    """What is wrong with a row, whatever the changelog has; and the condition."""
    yield "has a row of no partition", f"_partition IS NULL OR _partition NOT BETWEEN 0 AND {len(partitions) - 1}"
    yield "has a row without an offset", "_offset IS NULL"
    latest_ms = max(manifest.exact_to_ms + 1, manifest.read_at_ms)
    yield "has a time after its last run", f"_batch_ms > {latest_ms}"
    day = f"DATE '1970-01-01' + (_batch_ms // {DAY_MS})::INTEGER"
    yield "has a time of another day", f"_day IS DISTINCT FROM {day}"


def _unfolded(snapshot: SnapshotManifest) -> str:
    """The keys of rows that the fold of the history and the table don't both have."""
    ends = " ".join(f"WHEN {at} THEN {end}" for at, end in {-1: 0, **snapshot.changelog_offsets}.items())
    newest = "SELECT _partition, max(_offset) AS _offset FROM known GROUP BY _partition, _key"
    columns = ", ".join(["_partition", *map(quoted, snapshot.columns), _FOLDED])
    return (
        f"WITH known AS (SELECT * FROM compared WHERE _offset < CASE _partition {ends} ELSE 0 END), "  # noqa: S608 (ours)
        f"newest AS ({newest}), shown AS (SELECT {columns} FROM current), "
        f"folded AS (SELECT {columns} FROM known SEMI JOIN newest USING (_partition, _offset) "
        "WHERE _value IS NOT NULL) "
        "SELECT _key FROM ((FROM folded EXCEPT FROM shown) UNION ALL (FROM shown EXCEPT FROM folded))"
    )
