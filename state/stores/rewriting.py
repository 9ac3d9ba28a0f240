"""Rewriting rows of old schema versions, a few at a time, while the store is in use.

Metadata: `rewrite-cursor` -> the key behind the last row that was looked at; gone once every row is current.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from state.errors import InvalidArgumentError
from state.serdes.versioned import VersionedSerde
from state.stores.bytes_store import BytesStore, Entry
from state.stores.key_value import KeyValueStore

CURSOR_KEY = b"rewrite-cursor"


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """What one step did.

    Attributes:
        scanned: rows looked at.
        rewritten: rows that were of an old version and are current now.
        done: whether the end of the store was reached.
    """

    scanned: int
    rewritten: int
    done: bool


class LazyRewriter:
    """Upgrades the rows of a store whose values have a `VersionedSerde`; its writes are cached and logged like others.

    The place is kept in the store, with the rows: a step that is cut off is done again. Only the store's writer may
    call it.
    """

    def __init__(self, store: KeyValueStore[Any, Any], serde: VersionedSerde[Any]) -> None:
        self._rows: BytesStore = store.layers.top
        self._serde = serde

    def step(self, limit: int = 1000) -> RewriteStep:
        """Looks at the next `limit` rows and rewrites the old ones.

        Raises:
            InvalidArgumentError: `limit` is below 1.
            SerializationError: a row is of a version that can't be read any more; nothing of this step is written.
        """
        if limit < 1:
            msg = f"a step of {limit} rows gets nowhere; use at least 1"
            raise InvalidArgumentError(msg)
        with self._rows.scan(self._rows.metadata(CURSOR_KEY), None) as rows:
            batch = list(islice(rows, limit))
        serde = self._serde
        outdated: list[Entry] = [
            (key, serde.serialize(serde.deserialize(data))) for key, data in batch if serde.is_outdated(data)
        ]
        done = len(batch) < limit
        self._rows.write(outdated, {CURSOR_KEY: None if done else batch[-1][0] + b"\x00"})
        return RewriteStep(len(batch), len(outdated), done)
