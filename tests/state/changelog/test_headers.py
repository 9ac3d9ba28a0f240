"""The headers of a changelog record."""

from __future__ import annotations

import pytest

from state.changelog.headers import ChangelogHeaders, schema_version_of
from state.errors import ChangelogError

HEADERS = ChangelogHeaders(
    app="pos", store="rewards", generation=1, batch_id=17, source={"pos": {1: (0, 5), 0: (100, 200)}}
)
ENCODED = [
    ("schema-version", b"1"),
    ("app", b"pos"),
    ("store", b"rewards"),
    ("generation", b"1"),
    ("batch-id", b"17"),
    ("source-position", b'{"pos":{"0":[100,200],"1":[0,5]}}'),
]


def test_golden_bytes() -> None:
    assert HEADERS.encode() == ENCODED


def test_come_back() -> None:
    assert ChangelogHeaders.decode(HEADERS.encode()) == HEADERS


def test_unknown_headers_are_ignored() -> None:
    assert ChangelogHeaders.decode([*ENCODED, ("traceparent", b"00-1")]) == HEADERS


@pytest.mark.parametrize("missing", [name for name, _ in ENCODED])
def test_each_is_required(missing: str) -> None:
    with pytest.raises(ChangelogError, match=missing):
        ChangelogHeaders.decode([header for header in ENCODED if header[0] != missing])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("generation", b"one"),
        ("batch-id", b""),
        ("source-position", b"{"),
        ("source-position", b'{"pos":{"0":[1]}}'),
        ("source-position", b"[]"),
        ("app", b"\xff"),
    ],
)
def test_malformed_ones_are_refused(name: str, value: bytes) -> None:
    with pytest.raises(ChangelogError):
        ChangelogHeaders.decode([(found, value if found == name else old) for found, old in ENCODED])


@pytest.mark.parametrize("headers", [None, [], [("schema-version", None)], [("schema-version", b"0")], [("a", b"1")]])
def test_a_record_without_schema_version_is_no_changelog_record(headers: list[tuple[str, bytes | None]] | None) -> None:
    with pytest.raises(ChangelogError):
        schema_version_of(headers)


def test_the_schema_version_is_found_anywhere() -> None:
    assert schema_version_of([("app", b"x"), ("schema-version", b"12")]) == 12
