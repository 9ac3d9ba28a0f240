"""A store's history as readers open it: its columns, for which times it is exact, and its changes as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import orjson
from deltalake import DeltaTable

from storekeeper.errors import SerializationError
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import Coverage, changes_until, fold_sql
from storekeeper.snapshots.columns import sql_types
from storekeeper.snapshots.delta_log import commits, open_table
from storekeeper.snapshots.duck import opened, run
from storekeeper.snapshots.history import HistoryManifest, history_of, newest_history
from storekeeper.snapshots.scan import Scan
from storekeeper.stores.store_definitions import ServedKind


@dataclass(frozen=True, slots=True)
class StoreHistory:
    """One version of a history.

    Attributes:
        table: the name of the store's table.
        place: the folder of the history.
        version: which.
        partition_count: of its changelog.
        kind: the kind of the store.
        coverage: for which times it is exact.
        columns: SQL type by name.
    """

    table: str
    place: Location
    version: int
    partition_count: int
    kind: ServedKind
    coverage: Coverage
    columns: dict[str, str]
    _delta: DeltaTable

    @classmethod
    def beside(cls, path: Location, version: int | None = None) -> Self | None:
        """A version of the history beside a store's table, or the newest; None if there is none.

        Raises:
            SnapshotDamagedError: it can't be read, or another program has changed it.
        """
        place = history_of(path)
        found = newest_history(place, at=version)
        if found is None:
            return None
        manifest, delta = found.manifest, open_table(place, found.version)
        coverage = Coverage(manifest.exact_from_ms, manifest.exact_to_ms, manifest.gaps, manifest.eras)
        partitions = len(manifest.changelog_offsets)
        return cls(path.name, place, found.version, partitions, manifest.kind, coverage, sql_types(delta), delta)

    def as_of(self, at_ms: int, *predicates: str) -> Scan:
        """The changes whose fold are the rows at a time; those alone for which all predicates hold.

        Raises:
            NotExactError: the rows at that time aren't known.
        """
        self.coverage.check(self.table, at_ms)
        return self.changes(changes_until(at_ms, self.coverage.era(at_ms)), *predicates)

    def folded(self, columns: Sequence[str], at_ms: int, *predicates: str) -> list[dict[str, Any]]:
        """Some columns of the rows at a time; of those alone for which all predicates hold.

        Raises:
            NotExactError: the rows at that time aren't known.
            StorageError: a file can't be read.
        """
        with opened() as connection:
            connection.register("changes", self.as_of(at_ms, *predicates))
            return run(connection, fold_sql("changes", columns)).dicts()

    def source_positions(self, from_ms: int) -> list[tuple[int, dict[str, Any]]]:
        """How far the sources had been read at the end of each commit since a time, with the time of its last batch.

        They are ascending, and go back as far as the table's log.
        """
        found = []
        for commit in commits(self.place):
            with suppress(SerializationError):
                manifest = HistoryManifest.from_json(commit.info.get("userMetadata") or "")
                found.append((manifest.exact_to_ms, orjson.loads(manifest.source_offsets.to_json())))
                if manifest.exact_to_ms < from_ms:
                    break
        return found[::-1]

    def changes(self, *predicates: str) -> Scan:
        """The changes for which all predicates hold."""
        return Scan(self._delta, " AND ".join(predicates) or None)
