"""What a store's history says: the changes of a key, and how the rows of two times differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any

import duckdb

from storekeeper.serdes.keys.sessions import decode_session_row_key
from storekeeper.serdes.keys.versions import decode_version_row_key
from storekeeper.serdes.keys.windows import decode_window_row_key
from storekeeper.snapshots.as_of import changes_between_keys, fold_sql, quoted, rows_of_key, value_columns
from storekeeper.snapshots.duck import close_off, opened, run
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.stores.store_definitions import ServedKind

_PLACE = ("_partition", "_key", "_offset", "_generation", "_batch", "_batch_ms", "_value")
_NUMBERS = ("DECIMAL", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a row.

    Attributes:
        row: the key as text, or as bytes if it is none, and the times of a window or version behind it; by name.
        at_ms: the time of its batch.
        fields: the values by column; `value` for a store without columns. None: the row was deleted.
        generation: the app's generation.
        batch: the batch. None if a new generation has begun without the row.
        partition, offset: where the change is in the changelog; no offset if there is no batch.
    """

    row: dict[str, Any]
    at_ms: int
    fields: dict[str, Any] | None
    generation: int
    batch: int | None
    partition: int
    offset: int | None


def changes_of_key(history: StoreHistory, key: bytes) -> list[Change]:
    """All changes of a key's rows, the newest first.

    A row that an era begins without was deleted then, though no record says so.
    """
    columns = [*_PLACE, *value_columns(history.columns)]
    found = history.read(columns, changes_between_keys(*rows_of_key(history.kind, key))).to_pylist()
    found.sort(key=lambda one: (one["_partition"], one["_key"], one["_batch_ms"], one["_generation"], one["_offset"]))
    changes = [
        change
        for _, records in groupby(found, lambda one: (one["_partition"], one["_key"]))
        for change in _of_row(history, list(records))
    ]
    return sorted(changes, key=lambda change: (change.at_ms, change.offset or 0), reverse=True)


def _of_row(history: StoreHistory, records: Sequence[dict[str, Any]]) -> Iterator[Change]:
    """The changes of one row, and its silent ends."""
    kept = [one for one in records if one["_batch_ms"] <= history.coverage.to_ms]
    for record, after in pairwise([*kept, None]):
        if record is None:
            continue
        yield _change(history, record)
        until_ms = history.coverage.to_ms + 1 if after is None else after["_batch_ms"]
        era_ms = next((first for first in history.coverage.eras if record["_batch_ms"] < first < until_ms), None)
        if era_ms is not None and record["_value"] is not None:
            row = row_of(history.kind, record["_key"])
            yield Change(row, era_ms, None, record["_generation"], None, record["_partition"], None)


def _change(history: StoreHistory, record: dict[str, Any]) -> Change:
    return Change(
        row_of(history.kind, record["_key"]),
        record["_batch_ms"],
        fields_of(record, value_columns(history.columns)),
        record["_generation"],
        record["_batch"],
        record["_partition"],
        record["_offset"],
    )


def fields_of(record: dict[str, Any], columns: Iterable[str]) -> dict[str, Any] | None:
    """The values of a record by column; `value` if the store has no columns. None for a deletion."""
    if record["_value"] is None:
        return None
    return {name: record[name] for name in columns} or {"value": _shown(record["_value"])}


def row_of(kind: ServedKind, row_key: bytes) -> dict[str, Any]:
    """A row's key, as text if it is UTF-8, and the times in its row key, by name."""
    match kind:
        case ServedKind.WINDOW:
            key, start_ms, _ = decode_window_row_key(row_key)
            return {"key": _text(key), "start_ms": start_ms}
        case ServedKind.SESSION:
            key, start_ms, end_ms = decode_session_row_key(row_key)
            return {"key": _text(key), "start_ms": start_ms, "end_ms": end_ms}
        case ServedKind.VERSIONED:
            key, timestamp_ms = decode_version_row_key(row_key)
            return {"key": _text(key), "valid_at_ms": timestamp_ms}
        case _:
            return {"key": _text(row_key)}


def _text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def _shown(value: bytes) -> Any:
    """A value without columns: its JSON, else its text, else its bytes."""
    try:
        return json.loads(value, parse_float=Decimal)
    except ValueError:
        return _text(value)


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that isn't the same at two times; `before` or `after` is None if it was not there."""

    row: dict[str, Any]
    partition: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def change(self) -> str:
        """`added`, `removed` or `changed`."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class Total:
    """What all rows have together at two times: their number, or the sum of a column."""

    of: str
    before: Any
    after: Any

    @property
    def difference(self) -> Any:
        """By how much it has grown."""
        return (self.after or 0) - (self.before or 0)


@dataclass(frozen=True, slots=True)
class Difference:
    """How the rows of a store differ between two times.

    Attributes:
        totals: the number of rows, and the sum of each column of numbers.
        counts: of rows, by kind of change.
        rows: those that differ, in the order of their keys; at most as many as were asked for.
    """

    totals: tuple[Total, ...]
    counts: dict[str, int]
    rows: tuple[RowDifference, ...]


def difference(history: StoreHistory, from_ms: int, to_ms: int, *, most: int, key: bytes | None = None) -> Difference:
    """The difference between the rows of two times.

    Args:
        history: the store's.
        from_ms: the first time.
        to_ms: the second time.
        most: how many rows to show.
        key: the only key that counts; None for all.

    Raises:
        NotExactError: the rows at one of the times aren't known.
    """
    named = () if key is None else (changes_between_keys(*rows_of_key(history.kind, key)),)
    columns = value_columns(history.columns)
    with opened() as connection:
        for name, at_ms in (("before", from_ms), ("after", to_ms)):
            _fold(connection, name, history, at_ms, named)
        close_off(connection)
        totals = _totals(connection, columns)
        connection.execute(_DIFFERING)
        counted = run(connection, "SELECT change, count(*) FROM differing GROUP BY change ORDER BY change")
        shown = run(connection, f"FROM differing ORDER BY _partition, _key LIMIT {most}")
    rows = tuple(
        RowDifference(
            row_of(history.kind, one["_key"]), one["_partition"], *(_side(one[side], columns) for side in ("b", "a"))
        )
        for one in shown.dicts()
    )
    ordered = sorted(rows, key=lambda one: tuple(str(part) for part in one.row.values()))
    return Difference(totals, dict(counted.rows), tuple(ordered))


_DIFFERING = """
CREATE TEMP VIEW differing AS
SELECT coalesce(b._partition, a._partition) AS _partition, coalesce(b._key, a._key) AS _key, b, a,
    CASE WHEN b._key IS NULL THEN 'added' WHEN a._key IS NULL THEN 'removed' ELSE 'changed' END AS change
FROM before b FULL JOIN after a ON b._partition = a._partition AND b._key = a._key
WHERE b._value IS DISTINCT FROM a._value
"""


def _fold(
    connection: duckdb.DuckDBPyConnection, name: str, history: StoreHistory, at_ms: int, named: Sequence[str]
) -> None:
    """Makes the table of the rows at a time."""
    connection.register("changes", history.as_of(at_ms, *named))
    columns = ["_partition", "_key", "_value", *value_columns(history.columns)]
    connection.execute(f"CREATE TEMP TABLE {name} AS {fold_sql('changes', columns)}")
    connection.unregister("changes")


def _totals(connection: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> tuple[Total, ...]:
    kinds = {name: str(kind) for name, kind in zip(*_described(connection), strict=True)}
    sums = [name for name in columns if kinds[name].startswith(_NUMBERS)]
    asked = ", ".join(["count(*) AS c", *(f"sum({quoted(name)})" for name in sums)])
    before, after = (run(connection, f"FROM {side} SELECT {asked}").rows[0] for side in ("before", "after"))
    return tuple(Total(*each) for each in zip(["rows", *sums], before, after, strict=True))


def _described(connection: duckdb.DuckDBPyConnection) -> tuple[list[str], list[Any]]:
    relation = connection.table("before")
    return relation.columns, relation.types


def _side(record: dict[str, Any] | None, columns: Sequence[str]) -> dict[str, Any] | None:
    if record is None or record["_key"] is None:
        return None
    return fields_of(record, columns)
