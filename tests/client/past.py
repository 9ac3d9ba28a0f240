"""Histories of the stores that `served_cluster` serves: each has one key, with two changes."""

from __future__ import annotations

from pathlib import Path

from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.store_definitions import ServedKind
from tests.client.served_cluster import BEGAN_MS
from tests.snapshots.made_history import Produced, value_of

_ROWS = {
    "rewards": (ServedKind.KEY_VALUE, b"card-07"),
    "sales": (ServedKind.WINDOW, window_row_key(b"s1", BEGAN_MS)),
    "visits": (ServedKind.SESSION, session_row_key(b"u1", BEGAN_MS, BEGAN_MS + 7)),
}


def made_past(root: Path) -> dict[str, Produced]:
    """Writes the histories, and returns what was produced, by store."""
    stores = {}
    for store, (kind, row_key) in _ROWS.items():
        produced = stores[store] = Produced(kind)
        for points in ("1.5", "2.5"):
            produced.commit([(0, row_key, value_of("card-07", points, 1))])
        produced.write(root, store)
    return stores
