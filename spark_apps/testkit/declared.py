"""Whether a row holds what its store's spec declares."""

from __future__ import annotations

import orjson

from spark_apps.spec import StoreSpec


class UndeclaredRowError(AssertionError):
    """A row of a store is not as its spec declares: the first snapshot would stop at it."""


def check_row(store: StoreSpec, value: bytes) -> None:
    """Looks for every field that a row owes.

    Raises:
        UndeclaredRowError: one isn't there, or the value is no JSON object.
    """
    try:
        row = orjson.loads(value)
    except orjson.JSONDecodeError:
        row = None
    if not isinstance(row, dict):
        msg = f"a row of store {store.name} is no JSON object"
        raise UndeclaredRowError(msg)
    lacking = [item.name for item in store.value_fields if not item.nullable and row.get(item.name) is None]
    if lacking:
        msg = (
            f"a row of store {store.name} lacks {', '.join(lacking)}: write it, or declare it as "
            f"ValueField({lacking[0]!r}, ..., nullable=True)"
        )
        raise UndeclaredRowError(msg)
