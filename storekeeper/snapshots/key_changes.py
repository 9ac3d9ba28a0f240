"""The changes of a key, as a store's history has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any

from storekeeper.serdes.keys.sessions import decode_session_row_key
from storekeeper.serdes.keys.versions import decode_version_row_key
from storekeeper.serdes.keys.windows import decode_window_row_key
from storekeeper.snapshots.as_of import changes_between_keys, rows_of_key, value_columns
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
            row_key, place = record["_key"], record["_partition"]
            row = row_of(history.kind, row_key)
            yield Change(row_key, row, era_ms, None, None, record["_generation"], None, place, None)


def _change(history: StoreHistory, record: dict[str, Any]) -> Change:
    return Change(
        record["_key"],
        row_of(history.kind, record["_key"]),
        record["_batch_ms"],
        record["_value"],
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
