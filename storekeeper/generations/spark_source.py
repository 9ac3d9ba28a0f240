"""Stores as a data source of PySpark: `spark.read.format("storekeeper").load("rewards")`.

Its rows are those of now, those of a time (`asOf`), or what became of each key (`changes`). Each has the key as text,
and the times of a window or session. All tasks read one cut: of the changelog, or one version of the history.
Option `keys` keeps the rows of other keys out. It is no pushed filter: Spark remembers a source's filters for its
frame, and a second query of the frame without them would lack rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.errors import InvalidArgumentError
from storekeeper.generations.live import live_store
from storekeeper.locations import Location, location
from storekeeper.snapshots.as_of import (
    OF_CHANGES,
    KeyRanges,
    changes_in,
    changes_sql,
    changes_until,
    distinct_names,
    fold_sql,
    in_ranges_sql,
    row_columns,
    rows_of_key,
    time_ms,
    value_columns,
)
from storekeeper.snapshots.columns import PLACE_COLUMNS
from storekeeper.snapshots.duck import folding
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.key_changes import row_of
from storekeeper.snapshots.rows_now import RowsNow, columns_now, ranges_table, rows_now, table_below
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.store_definitions import ServedKind

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BATCH_ROWS = 16_384
_KEY_COLUMNS = {
    ServedKind.WINDOW: ("start_ms",),
    ServedKind.SESSION: ("start_ms", "end_ms"),
    ServedKind.VERSIONED: ("valid_at_ms",),
}
_OPTIONS = frozenset({"path", "asof", "changes", "keys", "tables"})


@dataclass(frozen=True, slots=True)
class Now:
    """The rows of a store now."""

    read: RowsNow

    @property
    def changes(self) -> bool:
        """Whether the changes are asked for."""
        return False

    @property
    def kind(self) -> ServedKind:
        """The kind of the store."""
        return self.read.store.kind

    def partitions(self, ranges: KeyRanges | None) -> list[InputPartition]:
        """One for each changelog partition: a key may be in any of them."""
        return [InputPartition(partition) for partition in self.read.stretches]

    def batches(self, partition: InputPartition, ranges: KeyRanges | None) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return self.read.rows(partition.value, ranges)


@dataclass(frozen=True, slots=True)
class Past:
    """A version of a history, and until which time.

    Attributes:
        path: the folder of the store's table.
        version: of its history.
        at_ms: the time.
        changes: whether the changes until then are asked for, and not the rows of then.
        kind: the kind of the store.
    """

    path: Location
    version: int
    at_ms: int
    changes: bool
    kind: ServedKind

    def history(self) -> StoreHistory:
        """That version of the history."""
        found = StoreHistory.beside(self.path, self.version)
        assert found is not None  # noqa: S101 (it was there when the read was planned)
        return found

    def partitions(self, ranges: KeyRanges | None) -> list[InputPartition]:
        """One for each changelog partition; one alone for keys, and for changes of several generations.

        A key may be in another partition of each generation.
        """
        history = self.history()
        alone = ranges is not None or (self.changes and len(history.coverage.eras) > 1)
        count = 1 if alone else max(1, history.partition_count)
        return [InputPartition((number, count)) for number in range(count)]

    def batches(self, partition: InputPartition, ranges: KeyRanges | None) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        (number, count), history = partition.value, self.history()
        predicates = [] if count == 1 else [f"_partition % {count} = {number}"]
        found = "changes"
        if ranges is not None:
            predicates.append(changes_in(ranges))
            found = in_ranges_sql(found, "ranges")
        named = [f"({each})" for each in predicates]
        if self.changes:
            changes = history.changes(changes_until(self.at_ms), *named)
            eras = [first for first in history.coverage.eras if first <= self.at_ms]
            sql = changes_sql(found, _changed_columns(history), eras, self.kind)
        else:
            changes = history.as_of(self.at_ms, *named)
            sql = fold_sql(found, row_columns(history.columns))
        with folding(history.place) as connection:
            connection.register("ranges", ranges_table(ranges or ()))
            connection.register("changes", changes)
            yield from connection.sql(sql).to_arrow_reader(_BATCH_ROWS)


class StorekeeperDataSource(DataSource):
    """The data source.

    Without `asOf`, `changes` and `tables`, the rows are those of now: of all that is committed in the changelog when
    the read is planned. It needs Kafka then.

    Options:

    - `asOf`: a time, in epoch milliseconds or ISO 8601: the rows after the last batch until then.
    - `changes`: `true` for a row for each batch that changed a key, with `changed_at` and `deleted`.
    - `keys`: a JSON list of keys, each a text: no other key is read.
    - `tables`: the folder of the Delta tables, instead of the platform's. Its rows are those after the last batch in
      the store's history there.

    Raises:
        InvalidArgumentError: an option can't be used, or there is no store or no history of that name.
        NotExactError: the rows are not known.
        ChangelogError, OpenTransactionError, BrokerUnavailableError: the changelog can't be read.
        SnapshotDamagedError: the store's table is not as it was sealed.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "storekeeper"

    def schema(self) -> str:
        """The columns as DDL."""
        if self._is_now():
            store, settings = live_store(self._store(), AppSettings.of_platform())
            below = table_below(store, SealedTable.of(settings, store.table_name))
            columns = _beside_key(store.kind, columns_now(store, settings, below) | PLACE_COLUMNS)
        else:
            columns = _columns(self._past().history(), changes=self._flag("changes"))
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns."""
        return StorekeeperReader(self._now() if self._is_now() else self._past(), schema.fieldNames(), self._keys())

    def _is_now(self) -> bool:
        unknown = {name.lower() for name in self.options} - _OPTIONS
        if unknown:
            msg = (
                f"format storekeeper has no option {', '.join(sorted(unknown))}: it has asOf, changes, keys and tables"
            )
            raise InvalidArgumentError(msg)
        return not self._flag("changes") and "asOf" not in self.options and "tables" not in self.options

    def _store(self) -> str:
        name = self.options.get("path", "")
        if not name or "/" in name:
            msg = f"name one store, such as load('rewards'), not {name!r}; the option tables names a folder"
            raise InvalidArgumentError(msg)
        return name

    def _now(self) -> Now:
        store, settings = live_store(self._store(), AppSettings.of_platform())
        return Now(rows_now(store, settings, SystemClock().now_ms()))

    def _past(self) -> Past:
        name, folder = self._store(), self.options.get("tables")
        path = (AppSettings.of_platform().tables if folder is None else location(folder)) / name
        history = StoreHistory.beside(path)
        if history is None:
            msg = f"there is no history of a store {name!r} beside {path}: `storekeeper snapshot create` begins one"
            raise InvalidArgumentError(msg)
        at = self.options.get("asOf")
        at_ms = history.coverage.to_ms if at is None else time_ms(at)
        changes = self._flag("changes")
        if at is not None or not changes:
            history.coverage.check(name, at_ms)
        return Past(path, history.version, at_ms, changes, history.kind)

    def _keys(self) -> list[str] | None:
        text = self.options.get("keys")
        if text is None:
            return None
        try:
            return sorted(set(msgspec.json.decode(text, type=list[str])))
        except msgspec.MsgspecError as error:
            msg = f'option keys is a JSON list of texts, such as ["42"], not {text[:40]!r}'
            raise InvalidArgumentError(msg) from error

    def _flag(self, name: str) -> bool:
        text = self.options.get(name, "false").lower()
        if text not in {"true", "false"}:
            msg = f"option {name} is true or false, not {text!r}"
            raise InvalidArgumentError(msg)
        return text == "true"


class StorekeeperReader(DataSourceReader):
    """Reads the rows in tasks, each those of some changelog partitions; as batches of Arrow."""

    def __init__(self, asked: Now | Past, columns: list[str], keys: list[str] | None) -> None:
        self._asked = asked
        self._columns = columns
        self._keys = keys

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        return self._asked.partitions(self._ranges())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        kind = self._asked.kind
        for batch in self._asked.batches(partition, self._ranges()):
            yield self._shown(batch, kind)

    def _ranges(self) -> KeyRanges | None:
        return None if self._keys is None else [rows_of_key(self._asked.kind, key.encode()) for key in self._keys]

    def _shown(self, batch: pa.RecordBatch, kind: ServedKind) -> pa.RecordBatch:
        """A batch with the columns of the key, in the order asked for."""
        rows = [row_of(kind, key) for key in batch["_key"].to_pylist()]
        keys: dict[str, pa.Array] = {
            name: pa.array([row[name] for row in rows], pa.int64()) for name in _KEY_COLUMNS.get(kind, ())
        }
        keys["key"] = pa.array([row["key"] if isinstance(row["key"], str) else None for row in rows], pa.string())
        # Those of changes have the names under which they are shown.
        shown = {} if self._asked.changes else distinct_names(keys, batch.schema.names)
        of_batch = {to: name for name, to in shown.items()}
        columns = [keys[name] if name in keys else batch[of_batch.get(name, name)] for name in self._columns]
        return pa.record_batch(columns, names=self._columns)


def _key_columns(kind: ServedKind) -> dict[str, str]:
    """SQL type by name of the columns that have the key, and the times behind it."""
    return {"key": "string"} | dict.fromkeys(_KEY_COLUMNS.get(kind, ()), "bigint")


def _columns(history: StoreHistory, *, changes: bool) -> dict[str, str]:
    """SQL type by name of the columns that a read of a history gives."""
    if not changes:
        return _beside_key(history.kind, {name: history.columns[name] for name in row_columns(history.columns)})
    key = _key_columns(history.kind) | {"changed_at": "timestamp", "deleted": "boolean"}
    values = {shown: history.columns[name] for name, shown in _changed_columns(history).items()}
    return key | values | {"_partition": "int", "_key": "binary"}


def _changed_columns(history: StoreHistory) -> dict[str, str]:
    """The columns of values, and the names under which changes show them."""
    return distinct_names([*_key_columns(history.kind), *OF_CHANGES], value_columns(history.columns))


def _beside_key(kind: ServedKind, columns: Mapping[str, str]) -> dict[str, str]:
    """SQL type by name of the columns of the key, and of others beside them."""
    key = _key_columns(kind)
    return key | {shown: columns[name] for name, shown in distinct_names(key, [*columns]).items()}
