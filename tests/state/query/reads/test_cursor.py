"""Signed cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import InvalidArgumentError
from state.query.reads.cursor import CursorCodec

CODEC = CursorCodec(b"k" * 32)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_comes_back(scan: bytes, after: bytes) -> None:
    assert CODEC.decode(scan, CODEC.encode(scan, after)) == after


@given(st.binary(max_size=20), st.binary(max_size=20), st.integers(0, 200), st.integers(1, 255))
def test_a_changed_one_is_refused(scan: bytes, after: bytes, place: int, change: int) -> None:
    cursor = CODEC.encode(scan, after)
    data = bytearray(cursor.encode())
    data[place % len(data)] ^= change
    changed = data.decode("latin-1")
    try:
        # The last character may carry bits that mean nothing: then the cursor still says the same.
        assert CODEC.decode(scan, changed) == after
        assert place % len(data) == len(data) - 1
    except InvalidArgumentError:
        pass


def test_one_of_another_scan_or_key_is_refused() -> None:
    cursor = CODEC.encode(b"one", b"k")
    for codec, scan in ((CODEC, b"other"), (CursorCodec(b"x" * 32), b"one")):
        with pytest.raises(InvalidArgumentError):
            codec.decode(scan, cursor)


@pytest.mark.parametrize("cursor", ["", "A", "AAAA", "%%%", "ä"])
def test_nonsense_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidArgumentError):
        CODEC.decode(b"one", cursor)


def test_the_boundary_between_scan_and_key_is_signed() -> None:
    with pytest.raises(InvalidArgumentError):
        CODEC.decode(b"on", CODEC.encode(b"one", b"k"))
