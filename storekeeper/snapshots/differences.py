"""How the rows of a store differ between two times, row by row and in sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import localcontext
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storekeeper.snapshots.as_of import changes_between_keys, fold_sql, quoted, rows_of_key, value_columns
from storekeeper.snapshots.duck import close_off, opened, run
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.key_changes import fields_of, row_of

_NUMBERS = ("DECIMAL", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT")
_DIGITS = 76
"""Of a sum. DuckDB has at most 38, and the sum of a column with 38 needs more."""
_BATCH_ROWS = 16_384


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
        with localcontext(prec=_DIGITS):
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
        if history.coverage.era(from_ms) != history.coverage.era(to_ms):
            connection.execute(_MOVED)
        totals = _totals(connection, columns)
        connection.execute(_DIFFERING)
        counted = run(connection, "SELECT change, count(*) FROM differing GROUP BY change ORDER BY change")
        shown = run(connection, f"FROM differing ORDER BY _partition, _key LIMIT {most}")
    rows = tuple(
        RowDifference(
            row_of(history.kind, one["_key"]),
            one["_partition"],
            *(_side(one[side], columns) for side in ("_before", "_after")),
        )
        for one in shown.dicts()
    )
    ordered = sorted(rows, key=lambda one: tuple(str(part) for part in one.row.values()))
    return Difference(totals, dict(counted.rows), tuple(ordered))


_DIFFERING = """
CREATE TEMP VIEW differing AS
SELECT coalesce(_after._partition, _before._partition) AS _partition, coalesce(_before._key, _after._key) AS _key,
    _before, _after,
    CASE WHEN _before._key IS NULL THEN 'added' WHEN _after._key IS NULL THEN 'removed' ELSE 'changed' END AS change
FROM before _before FULL JOIN after _after ON _before._partition = _after._partition AND _before._key = _after._key
WHERE _before._value IS DISTINCT FROM _after._value
"""
_MOVED = """
UPDATE before SET _partition = moved._partition
FROM (SELECT _key, min(_partition) AS _partition FROM after GROUP BY _key HAVING count(*) = 1) AS moved
WHERE before._key = moved._key AND moved._key IN (SELECT _key FROM before GROUP BY _key HAVING count(*) = 1)
"""
"""Another generation may have a key's row in another partition: it is the same row."""


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
    before, after = (
        (*run(connection, f"FROM {side} SELECT count(*)").rows[0], *_sums(connection, side, sums))
        for side in ("before", "after")
    )
    return tuple(Total(*each) for each in zip(["rows", *sums], before, after, strict=True))


def _sums(connection: duckdb.DuckDBPyConnection, side: str, names: Sequence[str]) -> list[Any]:
    """The sums of columns of numbers, exact but for floating point; None where there is no value."""
    sums: list[Any] = [None] * len(names)
    if names:
        selected = connection.table(side).select(*map(quoted, names))
        with localcontext(prec=_DIGITS):
            for batch in selected.to_arrow_reader(_BATCH_ROWS):
                found = [pc.sum(_wide(column)).as_py() for column in batch.columns]
                sums = [old if new is None else new + (old or 0) for old, new in zip(sums, found, strict=True)]
    return sums


def _wide(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_floating(kind):
        return column
    return column.cast(pa.decimal256(_DIGITS, 0 if pa.types.is_integer(kind) else kind.scale))


def _described(connection: duckdb.DuckDBPyConnection) -> tuple[list[str], list[Any]]:
    relation = connection.table("before")
    return relation.columns, relation.types


def _side(record: dict[str, Any] | None, columns: Sequence[str]) -> dict[str, Any] | None:
    if record is None or record["_key"] is None:
        return None
    return fields_of(record, columns)
