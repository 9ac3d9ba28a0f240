"""Upkeep of histories: of old changes only the newest of each key stays, closed days are sorted, old files go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties
from deltalake.exceptions import DeltaError

from storekeeper.engine.runtime.lease import job_lease
from storekeeper.locations import failure, reaching
from storekeeper.snapshots.as_of import quoted
from storekeeper.snapshots.catalogue.entry import Entry
from storekeeper.snapshots.duck import Scan, folding
from storekeeper.snapshots.history import PARTITIONED_BY, HistoryManifest, history_schema, newest_history
from storekeeper.snapshots.parquet_files import has_only
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.table_writer import TableWriter, take_back

_BATCH_ROWS = 16_384
_HOUR_MS = 3_600_000


@dataclass
class HistoryUpkeep:
    """The upkeep of one history. Hold the lease of its store's snapshots. Repeatable: each step is one commit.

    Attributes:
        sealed: the history.
        store: the store's name.
        now_ms: the time.
    """

    sealed: SealedTable
    store: str
    now_ms: int

    def __post_init__(self) -> None:
        self.path = self.sealed.path
        entry = Entry(self.path.name, self.path, "", {}, job_lease(self.store, "snapshot"), self.sealed)
        take_back(entry)
        self._writer = TableWriter(entry, [PARTITIONED_BY])
        found = newest_history(self.path)
        self._manifest = None if found is None else found.manifest

    def run(self, *, kept_ms: int, versions_ms: int) -> dict[str, Any] | None:
        """Does what is due; returns what was done, None without a history.

        Args:
            kept_ms: every change of this time stays.
            versions_ms: every version of this time stays readable.

        Raises:
            SnapshotDamagedError: another program has written to the history.
            StorageError: it can't be written.
        """
        if self._manifest is None:
            return None
        self._thin(kept_ms)
        days = self._sort()
        removed = self._vacuum(versions_ms)
        return {"exact_from_ms": self._manifest.exact_from_ms, "sorted_days": days, "vacuumed_files": removed}

    def erase(
        self, ranges: Sequence[tuple[bytes, bytes]], kept: Collection[tuple[int, int]], ends: Mapping[int, int]
    ) -> int:
        """Drops the changes of some rows for good; returns how many.

        Args:
            ranges: of their row keys, from the first to before the second.
            kept: the changes that stay: partition and offset of their records, which the changelog still has.
            ends: by partition, the end of what was read of the changelog. Later changes stay too.

        Raises:
            SnapshotDamagedError: another program has written to the history.
            StorageError: it can't be written.
        """
        if self._manifest is None:
            return 0
        places = self._places(ranges)
        newest_ms = self._known.eras[-1]
        dropped = sorted(
            place
            for place in places
            if place[3] < newest_ms or (place[2] < ends.get(place[1], 0) and (place[1], place[2]) not in kept)
        )
        erased = dict(self._known.erased)
        for _, partition, offset, at_ms in dropped:
            if at_ms >= newest_ms:
                erased[partition] = max(offset + 1, erased.get(partition, 0))
        manifest = replace(self._known, erased=erased)
        for day, of_day in groupby(dropped, lambda place: place[0]):
            gone = ", ".join(str(place[1:]) for place in of_day)
            place = "_partition, _offset, _batch_ms"
            rows = (
                f"SELECT replaced.* FROM replaced ANTI JOIN (VALUES {gone}) AS gone({place}) USING ({place}) "  # noqa: S608
                "ORDER BY _key, _offset"
            )
            self._replace(f"_day = DATE '{day}'", rows, manifest)
        return len(dropped)

    def _places(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[tuple[date, int, int, int]]:
        """The day, the partition, the offset and the time of each change in ranges of row keys."""
        assert self._writer.table is not None  # noqa: S101 (it has a manifest)
        place = ("_day", "_partition", "_offset", "_batch_ms")
        with folding(self.path) as database:
            database.execute("CREATE TEMP TABLE ranges (first BLOB, stop BLOB)")
            database.executemany("INSERT INTO ranges VALUES (?, ?)", list(ranges))
            with reaching(self.path):
                scanned = pa.RecordBatchReader.from_stream(self._writer.table.scan(columns=["_key", *place]))
            database.register("changes", scanned)
            return database.execute(
                f"SELECT {', '.join(place)} FROM changes SEMI JOIN ranges ON _key >= first AND _key < stop"  # noqa: S608
            ).fetchall()

    def forget_versions(self) -> int:
        """Removes every file that the newest version does not need; returns how many. Earlier versions are gone."""
        return 0 if self._manifest is None else self._remove(0, [], whole=True)

    def _thin(self, kept_ms: int) -> None:
        """Drops the changes before a day that are not the newest of their key at its beginning, and deletions."""
        manifest = self._known
        first = min(_day(self.now_ms - kept_ms), _day(manifest.exact_to_ms))
        first_ms = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp() * 1000)
        if manifest.exact_from_ms >= first_ms:
            return
        era_ms = manifest.era(first_ms)
        # A deletion of the last day stays: a clean-up's record of a later time may be before it in the changelog.
        rows = (
            f"WITH old AS (SELECT * FROM replaced WHERE _batch_ms >= {era_ms}), "  # noqa: S608 (numbers and dates)
            "newest AS (SELECT _partition, max(_offset) AS _offset FROM old GROUP BY _partition, _key) "
            "SELECT old.* FROM old SEMI JOIN newest USING (_partition, _offset) "
            f"WHERE _value IS NOT NULL OR _day = DATE '{first - timedelta(1)}' ORDER BY _day, _key"
        )
        self._replace(f"_day < DATE '{first}'", rows, replace(
            manifest,
            exact_from_ms=first_ms,
            eras=tuple(begun for begun in manifest.eras if begun >= era_ms),
            gaps=tuple(gap for gap in manifest.gaps if gap[1] > first_ms),
        ))  # fmt: skip

    def _sort(self) -> int:
        """Sorts the days that get no more changes, so that the history of a key reads little of each."""
        end, sorted_before = _day(self._known.exact_to_ms), self._known.sorted_before
        assert self._writer.table is not None  # noqa: S101 (it has a manifest)
        days = sorted(str(part[PARTITIONED_BY]) for part in self._writer.table.partitions())
        due = [day for day in days if sorted_before <= day < str(end)]
        for day in due:
            after = date.fromisoformat(day) + timedelta(1)
            rows = "SELECT * FROM replaced ORDER BY _key, _offset"
            self._replace(f"_day = DATE '{day}'", rows, replace(self._known, sorted_before=str(after)))
        return len(due)

    def _replace(self, where: str, rows: str, manifest: HistoryManifest) -> None:
        schema = history_schema(manifest.columns)
        assert self._writer.table is not None  # noqa: S101 (it has a manifest)

        def read() -> Iterator[pa.RecordBatch]:
            shown = ", ".join(map(quoted, schema.names))
            for batch in database.sql(f"SELECT {shown} FROM ({rows})").to_arrow_reader(_BATCH_ROWS):  # noqa: S608 (ours)
                yield batch.cast(schema)

        with folding(self.path) as database:
            database.register("found", Scan(self._writer.table, where))
            database.execute("CREATE TEMP TABLE replaced AS FROM found")
            self._writer.write(read(), schema, manifest.to_json(), mode="overwrite", where=where)
        self._manifest = manifest

    def _vacuum(self, versions_ms: int) -> int:
        assert self._writer.table is not None  # noqa: S101 (it has a manifest)
        recent = self.now_ms - versions_ms
        commits = [(int(one["version"]), one.get("timestamp", 0)) for one in self._writer.table.history()]
        older = [version for version, at_ms in commits if at_ms < recent]
        kept = [*(version for version, at_ms in commits if at_ms >= recent), *older[:1]]
        return self._remove(-(-versions_ms // _HOUR_MS), kept)

    def _remove(self, retention_hours: int, kept: list[int], *, whole: bool = False) -> int:
        """Removes files; `whole`: also those that no version ever had, which a writer that died has left."""
        table = self._writer.table
        assert table is not None  # noqa: S101 (it has a manifest)
        try:
            with reaching(self.path):
                if whole and has_only(self.path, table):
                    return 0
            with reaching(self.path), self.sealed.writing():
                removed = table.vacuum(
                    retention_hours=retention_hours,
                    dry_run=False,
                    enforce_retention_duration=False,  # the versions decide
                    full=whole,
                    keep_versions=kept,
                    commit_properties=CommitProperties(custom_metadata={"userMetadata": self._known.to_json()}),
                )
        except (DeltaError, OSError) as error:
            msg = f"{self.path} can't be maintained ({error}): check the table; repeating it is harmless"
            raise failure(self.path, error, msg) from error
        return len(removed)

    @property
    def _known(self) -> HistoryManifest:
        assert self._manifest is not None  # noqa: S101 (`run` looks first)
        return self._manifest


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms // 1000, UTC).date()
