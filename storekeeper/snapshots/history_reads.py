"""A store's history as readers open it: its columns, for which times it is exact, and its changes as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from storekeeper.delta_files import is_table
from storekeeper.errors import StorageError
from storekeeper.locations import Location
from storekeeper.snapshots.as_of import Coverage, changes_until, history_of
from storekeeper.snapshots.columns import sql_types
from storekeeper.snapshots.delta_log import Commit, commits, damaged, open_table
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
            SnapshotDamagedError: it can't be read.
        """
        place = path.with_name(history_of(path.name))
        if not is_table(place):
            return None
        delta = open_table(place, version)
        newest = next((commit for commit in commits(place) if commit.version == delta.version()), None)
        facts = _manifest(place, newest)
        gaps = tuple((start, end) for start, end in facts["gaps"])
        coverage = Coverage(facts["exact_from_ms"], facts["exact_to_ms"], gaps, tuple(facts["eras"]))
        count, kind = len(facts["changelog_offsets"]), ServedKind(facts["kind"])
        return cls(path.name, place, delta.version(), count, kind, coverage, sql_types(delta), delta)

    def as_of(self, at_ms: int, *predicates: str) -> Scan:
        """The changes whose fold are the rows at a time; those alone for which all predicates hold.

        Raises:
            NotExactError: the rows at that time aren't known.
        """
        self.coverage.check(self.table, at_ms)
        return self.changes(changes_until(at_ms, self.coverage.era(at_ms)), *predicates)

    def read_as_of(self, columns: Sequence[str], at_ms: int, *predicates: str) -> pa.Table:
        """Some columns of the changes whose fold are the rows at a time, in memory. Raises as `as_of` and `read` do."""
        self.coverage.check(self.table, at_ms)
        return self.read(columns, changes_until(at_ms, self.coverage.era(at_ms)), *predicates)

    def read(self, columns: Sequence[str], *predicates: str) -> pa.Table:
        """Some columns of the changes for which all predicates hold, in memory.

        Raises:
            StorageError: a file can't be read.
        """
        try:
            batches = self._delta.scan(columns=list(columns), predicate=" AND ".join(predicates) or None)
            return pa.RecordBatchReader.from_stream(batches).read_all()
        except (DeltaError, OSError, pa.ArrowException) as error:
            msg = f"the history of {self.table} can't be read: {error}"
            raise StorageError(msg) from error

    def source_positions(self, from_ms: int) -> list[tuple[int, dict[str, Any]]]:
        """How far the sources had been read at the end of each commit since a time, with the time of its last batch.

        They are ascending, and go back as far as the table's log.
        """
        found = []
        for commit in commits(self.place):
            if told := commit.info.get("userMetadata"):
                facts = orjson.loads(told)
                found.append((facts["exact_to_ms"], facts["source_offsets"]))
                if facts["exact_to_ms"] < from_ms:
                    break
        return found[::-1]

    def changes(self, *predicates: str) -> Scan:
        """The changes for which all predicates hold."""
        return Scan(self._delta, " AND ".join(predicates) or None)


def _manifest(place: Location, commit: Commit | None) -> dict[str, Any]:
    """What the job that wrote a commit says of the history."""
    try:
        facts: dict[str, Any] = orjson.loads(commit.info["userMetadata"] if commit is not None else "")
    except (KeyError, ValueError) as error:
        raise damaged(place, "was changed by something else than the snapshot job") from error
    return facts
