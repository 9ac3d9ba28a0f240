"""The headers of a changelog record."""

from __future__ import annotations

import pytest

from storekeeper.changelog.headers import ChangelogHeaders, schema_version_of, source_ranges_of
from storekeeper.errors import ChangelogError

HEADERS = ChangelogHeaders(
    generation=1, batch_id=17, batch_ms=1_700_000_000_123, source={"pos": {1: (0, 5), 0: (100, 200)}}
)
ENCODED = [
    ("schema-version", b"1"),
    ("generation", b"1"),
    ("batch-id", b"17"),
    ("batch-time", b"1700000000123"),
    ("source-position", b'{"pos":{"0":[100,200],"1":[0,5]}}'),
]


def test_golden_bytes() -> None:
    assert HEADERS.encode() == ENCODED


def test_the_source_position_comes_back() -> None:
    assert source_ranges_of([*HEADERS.encode(), ("traceparent", b"00-1")]) == HEADERS.source


@pytest.mark.parametrize("value", [b"{", b'{"pos":{"0":[1]}}', b"[]", None])
def test_a_malformed_source_position_is_none(value: bytes | None) -> None:
    assert source_ranges_of([("source-position", value)]) is None


@pytest.mark.parametrize("headers", [None, [], [("schema-version", None)], [("schema-version", b"0")], [("a", b"1")]])
def test_a_record_without_schema_version_is_no_changelog_record(headers: list[tuple[str, bytes | None]] | None) -> None:
    with pytest.raises(ChangelogError):
        schema_version_of(headers)


def test_the_schema_version_is_found_anywhere() -> None:
    assert schema_version_of([("other", b"x"), ("schema-version", b"12")]) == 12
