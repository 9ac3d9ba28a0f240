"""The changes of a key, as a store's history has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

from storekeeper.serdes.keys.row_keys import LAYOUTS
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS
from storekeeper.snapshots.as_of import changes_between_keys, quoted, rows_of_key, value_columns
from storekeeper.snapshots.duck import run, shared
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.stores.store_definitions import ServedKind

_PLACE = ("_partition", "_key", "_offset", "_generation", "_batch", "_batch_ms", "_value")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a row.

    Attributes:
        row_key: the row's key in the changelog.
        row: its key as text, or as bytes if it is none, and the times of a window or version behind it; by name.
        at_ms: the time of its batch.
        value: the value. None: the row was deleted.
        fields: it by column; `value` for a store without columns.
        generation: the app's generation.
        batch: the batch. None if a new generation has begun without the row.
        partition, offset: where the change is in the changelog; no offset if there is no batch.
    """

    row_key: bytes
    row: dict[str, Any]
    at_ms: int
    value: bytes | None
    fields: dict[str, Any] | None
    generation: int
    batch: int | None
    partition: int
    offset: int | None


def changes_of_key(
    history: StoreHistory, key: bytes, *, most: int, from_ms: int = 0, to_ms: int = MAX_TIMESTAMP_MS
) -> list[Change]:
    """The newest changes of a key's rows, the newest first. However many there are, few are in memory.

    A row that an era begins without was deleted then, though no record says so.

    Args:
        history: the store's.
        key: the key; of windows, sessions and versions all rows of it.
        most: how many changes at most.
        from_ms: the first time that counts.
        to_ms: the last one.

    Raises:
        StorageError: a file can't be read.
    """
    columns = value_columns(history.columns)
    to_ms = min(to_ms, history.coverage.to_ms)
    with shared() as connection:
        connection.register("changes", history.changes(changes_between_keys(*rows_of_key(history.kind, key))))
        shown = ", ".join([*_PLACE, *map(quoted, columns)])
        found = [f"SELECT {shown} FROM changes"]  # noqa: S608 (names are quoted, numbers are ours)
        found += [_ends_sql(columns, before, first) for before, first in pairwise(sorted(history.coverage.eras))]
        newest = run(
            connection,
            f"FROM ({' UNION ALL '.join(found)}) WHERE _batch_ms BETWEEN {from_ms} AND {to_ms} "
            f"ORDER BY _batch_ms DESC, _offset DESC NULLS LAST, _partition, _key LIMIT {most}",
        )
    return [_change(history.kind, record, columns) for record in newest.dicts()]


def _ends_sql(columns: Sequence[str], before: int, first: int) -> str:
    """The rows that were there at the end of an era, and that the next, which begins at `first`, begins without."""
    nulls = "".join(f", NULL AS {quoted(name)}" for name in columns)
    return f"""
SELECT _partition, _key, NULL AS _offset, max(_generation) AS _generation, NULL AS _batch, {first} AS _batch_ms,
    NULL AS _value{nulls}
FROM (FROM changes WHERE _batch_ms >= {before} AND _batch_ms < {first})
    ANTI JOIN (FROM changes WHERE _batch_ms = {first}) USING (_partition, _key)
GROUP BY _partition, _key HAVING arg_max(_value IS NOT NULL, _offset)
"""  # noqa: S608 (names are quoted, numbers are ours)


def _change(kind: ServedKind, record: dict[str, Any], columns: Sequence[str]) -> Change:
    return Change(
        record["_key"],
        row_of(kind, record["_key"]),
        record["_batch_ms"],
        record["_value"],
        fields_of(record, columns),
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
    """A row's key, as text if it is UTF-8, and the times in its row key, by name.

    Of a row key that no store of that kind makes, such as a foreign record's, it is the whole, without times.
    """
    layout = LAYOUTS.get(kind)
    if layout is None:
        return {"key": _text(row_key)}
    key, *times = layout.split(row_key) or (row_key, *[None] * len(layout.times))
    return {"key": _text(key), **dict(zip(layout.times, times, strict=True))}


def _text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def _shown(value: bytes) -> Any:
    """A value without columns: its JSON, else its text, else its bytes."""
    try:
        return json.loads(value.decode(), parse_float=Decimal)  # of bytes, it would guess an encoding
    except (ValueError, RecursionError):
        return _text(value)
