"""Stores as a data source of PySpark: `spark.read.format("storekeeper").load("rewards")`.

Its rows are those after the last batch in the store's history, those of a time (`asOf`), or what became of each key
(`changes`). Each has the key as text, and the times of a window or session. All tasks read one version of the history.
Filters on `key` are pushed down: the files of other keys are not read. Spark wants
`spark.sql.python.filterPushdown.enabled` to be true for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import InvalidArgumentError
from storekeeper.locations import Location, location
from storekeeper.snapshots.as_of import (
    changes_between_keys,
    changes_sql,
    changes_until,
    fold_sql,
    row_columns,
    rows_of_key,
    time_ms,
    value_columns,
)
from storekeeper.snapshots.duck import folding
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.key_changes import row_of
from storekeeper.stores.store_definitions import ServedKind

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BATCH_ROWS = 16_384
_KEY_COLUMNS = {
    ServedKind.WINDOW: ("start_ms",),
    ServedKind.SESSION: ("start_ms", "end_ms"),
    ServedKind.VERSIONED: ("valid_at_ms",),
}
_OPTIONS = frozenset({"path", "asof", "changes", "tables"})


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a read asks for: a version of a history, and until which time.

    Attributes:
        path: the folder of the store's table.
        version: of its history.
        at_ms: the time.
        changes: whether the changes until then are asked for, and not the rows of then.
    """

    path: Location
    version: int
    at_ms: int
    changes: bool

    def history(self) -> StoreHistory:
        """That version of the history."""
        found = StoreHistory.beside(self.path, self.version)
        assert found is not None  # noqa: S101 (it was there when the read was planned)
        return found


class StorekeeperDataSource(DataSource):
    """The data source.

    Options:

    - `asOf`: a time, in epoch milliseconds or ISO 8601; by default that of the last batch in the history.
    - `changes`: `true` for a row for each batch that changed a key, with `changed_at` and `deleted`.
    - `tables`: the folder of the Delta tables; by default that of the platform.

    Raises:
        InvalidArgumentError: an option can't be used, or there is no history of the store.
        NotExactError: the rows at that time are not known.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "storekeeper"

    def schema(self) -> str:
        """The columns as DDL."""
        history = self._asked().history()
        return ", ".join(f"`{name}` {kind}" for name, kind in _columns(history, changes=self._flag("changes")).items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns."""
        return StorekeeperReader(self._asked(), schema.fieldNames())

    def _asked(self) -> _Asked:
        unknown = {name.lower() for name in self.options} - _OPTIONS
        if unknown:
            msg = f"format storekeeper has no option {', '.join(sorted(unknown))}: it has asOf, changes and tables"
            raise InvalidArgumentError(msg)
        name = self.options.get("path", "")
        if not name or "/" in name:
            msg = f"name one store, such as load('rewards'), not {name!r}; the option tables names a folder"
            raise InvalidArgumentError(msg)
        folder = self.options.get("tables")
        path = (AppSettings.of_platform().tables if folder is None else location(folder)) / name
        history = StoreHistory.beside(path)
        if history is None:
            msg = f"there is no history of a store {name!r} beside {path}: `storekeeper snapshot create` begins one"
            raise InvalidArgumentError(msg)
        at = self.options.get("asOf")
        at_ms = history.coverage.to_ms if at is None else time_ms(at)
        changes = self._flag("changes")
        if not changes:
            history.coverage.check(name, at_ms)
        return _Asked(path, history.version, at_ms, changes)

    def _flag(self, name: str) -> bool:
        text = self.options.get(name, "false").lower()
        if text not in {"true", "false"}:
            msg = f"option {name} is true or false, not {text!r}"
            raise InvalidArgumentError(msg)
        return text == "true"


class StorekeeperReader(DataSourceReader):
    """Reads the rows in tasks, each those of some changelog partitions; as batches of Arrow."""

    def __init__(self, asked: _Asked, columns: list[str]) -> None:
        self._asked = asked
        self._columns = columns
        self._keys: list[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's own)
        """Takes the filters on keys; the others are Spark's."""
        for each in filters:
            match each:
                case EqualTo(attribute=("key",), value=str(key)):
                    self._name_keys([key])
                case In(attribute=("key",), value=values) if all(isinstance(value, str) for value in values):
                    self._name_keys(values)
                case _:
                    yield each

    def _name_keys(self, keys: Iterable[str]) -> None:
        named = set(keys)
        self._keys = sorted(named if self._keys is None else named.intersection(self._keys))

    def partitions(self) -> list[InputPartition]:
        """One for each changelog partition; one alone for keys, and for changes of several generations.

        A key may be in another partition of each generation.
        """
        history = self._asked.history()
        alone = self._keys is not None or (self._asked.changes and len(history.coverage.eras) > 1)
        count = 1 if alone else max(1, history.partition_count)
        return [InputPartition((number, count)) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        number, count = partition.value
        asked, history = self._asked, self._asked.history()
        predicates = [] if count == 1 else [f"_partition % {count} = {number}"]
        if self._keys is not None:
            ranges = (changes_between_keys(*rows_of_key(history.kind, key.encode())) for key in self._keys)
            predicates.append(" OR ".join(f"({each})" for each in ranges) or "false")
        named = [f"({each})" for each in predicates]
        if asked.changes:
            changes = history.changes(changes_until(asked.at_ms), *named)
            eras = [first for first in history.coverage.eras if first <= asked.at_ms]
            sql = changes_sql("changes", value_columns(history.columns), eras)
        else:
            changes = history.as_of(asked.at_ms, *named)
            sql = fold_sql("changes", row_columns(history.columns))
        with folding(history.place) as connection:
            connection.register("changes", changes)
            for batch in connection.sql(sql).to_arrow_reader(_BATCH_ROWS):
                yield self._shown(batch, history.kind)

    def _shown(self, batch: pa.RecordBatch, kind: ServedKind) -> pa.RecordBatch:
        """A batch with the columns of the key, in the order asked for."""
        rows = [row_of(kind, key) for key in batch["_key"].to_pylist()]
        keys: dict[str, pa.Array] = {
            name: pa.array([row[name] for row in rows], pa.int64()) for name in _KEY_COLUMNS.get(kind, ())
        }
        keys["key"] = pa.array([row["key"] if isinstance(row["key"], str) else None for row in rows], pa.string())
        columns = [keys[name] if name in keys else batch[name] for name in self._columns]
        return pa.record_batch(columns, names=self._columns)


def _columns(history: StoreHistory, *, changes: bool) -> Mapping[str, str]:
    """SQL type by name of the columns that a read gives."""
    key = {"key": "string"} | dict.fromkeys(_KEY_COLUMNS.get(history.kind, ()), "bigint")
    values: dict[str, Any] = {name: history.columns[name] for name in value_columns(history.columns)}
    if changes:
        return key | {"changed_at": "timestamp", "deleted": "boolean"} | values | {"_key": "binary"}
    return key | {name: history.columns[name] for name in row_columns(history.columns)}
