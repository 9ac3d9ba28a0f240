"""A store as a test looks at it: the rows that its changelog adds up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from spark_apps.spec import StoreSpec
from state.keys.sessions import decode_session_row_key
from state.keys.windows import decode_window_row_key
from state.query.definitions import StoreKind

RowKey = Any
"""A text; in a window store (text, start in ms); in a session store (text, start in ms, end in ms)."""


class StoreView:
    """The rows of a store at one moment. Values are JSON read as Python has it."""

    def __init__(self, spec: StoreSpec, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        self._spec = spec
        rows: dict[bytes, bytes] = {}
        for key, value in changes:
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
        self._rows = {self._decoded(key): orjson.loads(value) for key, value in sorted(rows.items())}

    def get(self, key: RowKey) -> dict[str, Any] | None:
        """The value at `key`, or None."""
        return self._rows.get(key)

    def all(self) -> Mapping[RowKey, dict[str, Any]]:
        """All rows, in the order of their keys' bytes."""
        return dict(self._rows)

    def top(self, limit: int) -> list[tuple[str, Any]]:
        """The `limit` highest scores of a ranked store: (key, score), equal scores by key."""
        field = self._spec.score_field
        scored = [(key, value[field]) for key, value in self._rows.items()]
        return sorted(scored, key=lambda row: (-row[1], row[0]))[:limit]

    def __len__(self) -> int:
        return len(self._rows)

    def _decoded(self, key: bytes) -> RowKey:
        if self._spec.kind is StoreKind.WINDOW:
            inner, start_ms, _ = decode_window_row_key(key)
            return inner.decode(), start_ms
        if self._spec.kind is StoreKind.SESSION:
            inner, start_ms, end_ms = decode_session_row_key(key)
            return inner.decode(), start_ms, end_ms
        return key.decode()
