"""Row keys are split as stores make them, and foreign ones are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.serdes.keys.row_keys import LAYOUTS, key_of_row
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS, window_row_key
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.topology.store import StoreKind

TIMES = st.integers(0, MAX_TIMESTAMP_MS)
MADE: dict[str, Callable[[bytes, int, int], tuple[bytes, tuple[int, ...]]]] = {
    "window": lambda key, start, end: (window_row_key(key, start, end % 1000), (start,)),
    "session": lambda key, start, end: (session_row_key(key, start, end), (start, end)),
    "versioned": lambda key, start, _: (version_row_key(key, start), (start,)),
}


@pytest.mark.parametrize("kind", LAYOUTS)
@given(key=st.binary(), start=TIMES, end=TIMES)
def test_a_row_key_is_split_into_what_it_was_made_of(kind: str, key: bytes, start: int, end: int) -> None:
    row_key, times = MADE[kind](key, start, end)
    assert LAYOUTS[kind].split(row_key) == (key, *times)
    assert key_of_row(kind, row_key) == key


@pytest.mark.parametrize("kind", LAYOUTS)
@given(row_key=st.binary(max_size=30))
def test_bytes_from_elsewhere_are_split_or_refused_and_never_fail(kind: str, row_key: bytes) -> None:
    split = LAYOUTS[kind].split(row_key)
    assert split is None or all(0 <= time_ms <= MAX_TIMESTAMP_MS for time_ms in split[1:])


@pytest.mark.parametrize("row_key", [b"", b"abc", b"customer-4836051607", b"\0" + b"\xff" * 12])
def test_a_key_that_no_window_store_makes_is_none(row_key: bytes) -> None:
    assert key_of_row("window", row_key) is None


def test_kinds_of_apps_and_of_nodes_are_found_by_their_names() -> None:
    assert {*LAYOUTS} == {*StoreKind} & {*ServedKind} - {"ranked", "global"}
    assert key_of_row(ServedKind.RANKED, b"abc") == b"abc"
    assert key_of_row(StoreKind.TTL, b"abc") == b"abc"
