from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.stores.row_digest import digest, entry_hash, from_hex, moved, row_hash, to_hex

contents = st.dictionaries(st.binary(max_size=8), st.binary(max_size=8), max_size=20)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [  # what Spark SQL's xxhash64(key, value) gives, read unsigned
        (b"", b"", 0x5870CFF3F060F462),
        (b"a", b"b", 0x99E55CDCB46F813C),
        (b"4629185211", b'{"InvoiceCount":2}', 0x8D1F5F5EEE0D074A),
        (b"k" * 40, bytes(range(256)), 0x5D4A2FF1A322B4B7),
    ],
)
def test_hashes_are_those_of_spark(key: bytes, value: bytes, expected: int) -> None:
    assert entry_hash(key, value) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [  # what Spark SQL's xxhash64(key, value, offset, timestamp_ms) gives, read unsigned
        ((b"a", b"b", 0, 0), 0x7C3EC94454A3A770),
        ((b"4629185211", b"{}", 1 << 40, -1), 0x401A31462EFBB4D3),
    ],
)
def test_hashes_of_rows_are_those_of_spark(row: tuple[bytes, bytes, int, int], expected: int) -> None:
    assert row_hash(*row) == expected


@given(contents, st.randoms())
def test_order_makes_no_difference(content: dict[bytes, bytes], random: object) -> None:
    entries = list(content.items())
    random.shuffle(entries)  # type: ignore[attr-defined]
    assert digest(entries) == digest(content.items())


@given(contents, contents)
def test_a_digest_can_be_carried_on(before: dict[bytes, bytes], changes: dict[bytes, bytes]) -> None:
    removed = sum(entry_hash(key, before[key]) for key in changes.keys() & before.keys())
    added = sum(entry_hash(key, value) for key, value in changes.items())
    assert moved(digest(before.items()), added=added, removed=removed) == digest((before | changes).items())


@given(contents, st.binary(min_size=1, max_size=8))
def test_any_change_shows(content: dict[bytes, bytes], value: bytes) -> None:
    for key, before in content.items():
        if before != value:
            assert digest((content | {key: value}).items()) != digest(content.items())


@given(st.integers(0, 2**64 - 1))
def test_text_has_sixteen_digits(number: int) -> None:
    assert len(to_hex(number)) == 16
    assert from_hex(to_hex(number)) == number


def test_nothing_has_the_digest_zero() -> None:
    assert digest([]) == 0
