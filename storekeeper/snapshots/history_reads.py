"""A store's history as readers open it: its columns, for which times it is exact, and its changes as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import duckdb
import orjson
from deltalake import DeltaTable

from storekeeper.errors import InvalidArgumentError, SerializationError
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import Coverage, changes_until, fold_sql, iso_ms
from storekeeper.snapshots.columns import sql_types
from storekeeper.snapshots.delta_log import commits, open_table
from storekeeper.snapshots.duck import Scan, run, shared
from storekeeper.snapshots.history import HistoryManifest, history_of, newest_history
from storekeeper.stores.store_definitions import ServedKind

_FOLDED = ("_partition", "_key", "_offset", "_value")
"""The columns that a fold looks at."""
_BOUNDED_MEMORY = "256MB"


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

    def as_of(self, at_ms: int, *predicates: str, columns: Sequence[str] | None = None) -> Scan:
        """The changes whose fold are the rows at a time; those alone for which all predicates hold.

        Raises:
            NotExactError: the rows at that time aren't known.
        """
        self.coverage.check(self.table, at_ms)
        return self.changes(changes_until(at_ms, self.coverage.era(at_ms)), *predicates, columns=columns)

    def folded(
        self, columns: Sequence[str], at_ms: int, *predicates: str, rest: str = "", most: int | None = None
    ) -> list[dict[str, Any]]:
        """Some columns of the rows at a time; of those alone for which all predicates hold.

        Args:
            columns: the columns.
            at_ms: the time.
            predicates: the predicates.
            rest: SQL behind the fold: an order, a limit.
            most: the most changes that may lead to the rows, which then take little memory; None for any number.

        Raises:
            NotExactError: the rows at that time aren't known.
            InvalidArgumentError: it would take more; the message names the command for that.
            StorageError: a file can't be read.
        """
        with shared() if most is None else shared(_BOUNDED_MEMORY) as connection:
            if most is not None:
                self._check_few(connection, at_ms, predicates, most)
            needed = dict.fromkeys([*_FOLDED, *columns])
            connection.register("changes", self.as_of(at_ms, *predicates, columns=[*needed]))
            try:
                return run(connection, f"{fold_sql('changes', columns)} {rest}").dicts()
            except InvalidArgumentError as error:  # the statement is ours, so it is memory that it lacks
                raise self._too_much(at_ms, str(error)) from error

    def _check_few(
        self, connection: duckdb.DuckDBPyConnection, at_ms: int, predicates: Sequence[str], most: int
    ) -> None:
        connection.register("counted", self.as_of(at_ms, *predicates, columns=["_offset"]))
        ((found,),) = run(connection, f"SELECT count(*) FROM (FROM counted LIMIT {most + 1})").rows  # noqa: S608 (a number)
        if found > most:
            raise self._too_much(at_ms, f"more than {most:,} changes lead to them")

    def _too_much(self, at_ms: int, why: str) -> InvalidArgumentError:
        msg = (
            f"the rows of {self.table} as of {iso_ms(at_ms)} are too much for one request: {why}. Name fewer keys, or "
            f'ask the tables: storekeeper sql "FROM {self.table}" --as-of {iso_ms(at_ms)}'
        )
        return InvalidArgumentError(msg)

    def source_positions(self, from_ms: int) -> list[tuple[int, dict[str, Any] | None]]:
        """How far the sources had been read at the end of each commit since a time, with the time of its last batch.

        They are ascending. None: the table's log does not go back so far.
        """
        found: list[tuple[int, dict[str, Any] | None]] = []
        version = 0
        for commit in commits(self.place):
            version = commit.version
            with suppress(SerializationError):
                manifest = HistoryManifest.from_json(commit.info.get("userMetadata") or "")
                found.append((manifest.exact_to_ms, orjson.loads(manifest.source_offsets.to_json())))
                if manifest.exact_to_ms < from_ms:
                    return found[::-1]
        if version == 0 or not found:
            return found[::-1]
        oldest_ms, _ = found[-1]  # what it ends with may be of any commit before it
        return [(oldest_ms, None), *(one for one in found[::-1] if one[0] > oldest_ms)]

    def changes(self, *predicates: str, columns: Sequence[str] | None = None) -> Scan:
        """The changes for which all predicates hold."""
        return Scan(self._delta, " AND ".join(predicates) or None, columns)
