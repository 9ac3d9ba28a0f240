"""Merging waiting changes into a scan: the same rows as if they had been written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import IteratorClosedError
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.derived_iterator import merged, overlaid
from storekeeper.stores.memory import MemoryStore

KEYS = st.binary(max_size=2)
ROWS = st.dictionaries(KEYS, st.just(b"row"), max_size=8)
CHANGES = st.dictionaries(KEYS, st.none() | st.just(b"change"), max_size=8)


@given(ROWS, CHANGES, st.booleans())
def test_it_shows_what_writing_the_changes_would(
    rows: dict[bytes, bytes], changes: dict[bytes, bytes | None], reverse: bool
) -> None:
    both: dict[bytes, bytes | None] = {**rows, **changes}
    expected = sorted(((key, value) for key, value in both.items() if value is not None), reverse=reverse)
    pending: list[Entry] = sorted(changes.items(), key=lambda entry: entry[0], reverse=reverse)
    assert list(merged(pending, iter(sorted(rows.items(), reverse=reverse)), reverse=reverse)) == expected


def test_closing_it_closes_the_scan_below() -> None:
    store = MemoryStore("rows")
    store.write([(b"a", b"1"), (b"b", b"1")])
    rows = overlaid([(b"aa", b"2")], store.scan(None, None), store.open_iterators, reverse=False)
    assert (next(rows), len(store.open_iterators)) == ((b"a", b"1"), 1)
    rows.close()
    assert (rows.closed, len(store.open_iterators)) == (True, 0)
    with pytest.raises(IteratorClosedError):
        next(rows)
