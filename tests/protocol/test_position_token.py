"""Position tokens: what is read back, what is refused."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.changelog.position import Position
from storekeeper.errors import InvalidArgumentError
from storekeeper.protocol.position_token import MAX_TOKEN_CHARS, MAX_TOKEN_PARTITIONS, PositionToken

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
offsets = st.dictionaries(st.integers(0, 500), st.integers(0, 10**18 - 1), min_size=1, max_size=4)
positions = st.dictionaries(names, offsets, max_size=3).map(Position)


def opaque(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@given(changelog=positions, source=positions)
def test_a_token_comes_back(changelog: Position, source: Position) -> None:
    token = PositionToken(changelog, source)
    assert PositionToken.parse(token.encode()) == token


def test_golden_form() -> None:
    token = PositionToken.of_changelog("t-changelog", 3, 7).merged(PositionToken.of_source("pos", 0, 1234))
    assert token.encode() == opaque(b'{"c":{"t-changelog":{"3":7}},"s":{"pos":{"0":1235}},"v":1}')


def test_the_readable_form_names_records() -> None:
    assert PositionToken.parse("pos:0:1234") == PositionToken.of_source("pos", 0, 1234)
    assert PositionToken.parse("pos:0:1,pos:1:5").source == Position({"pos": {0: 2, 1: 6}})
    assert PositionToken.parse("pos:0:7,pos:00:1,shop:0:3").source == Position({"pos": {0: 8}, "shop": {0: 4}})


def test_records_too_many_are_refused_before_any_is_looked_at() -> None:
    with pytest.raises(InvalidArgumentError, match="over the limit of 256"):
        PositionToken.parse(":" + "," * 256)


def test_merging_keeps_the_later_offset() -> None:
    one, other = PositionToken.of_changelog("t", 0, 5), PositionToken.of_changelog("t", 0, 3)
    assert one.merged(other) == other.merged(one) == one


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pos:0",
        "pos:0:1:2",
        "pos:-1:5",
        "pos:0:-5",
        "pos:0:1.5",
        "pos:0:99999999999999999999",
        "../x:0:1",
        "pos:0:\u0661",
        "not a token",
        "e30",
        "é",
        opaque(b"[]"),
        opaque(b'{"c":{},"s":{},"v":2}'),
        opaque(b'{"c":{},"s":{},"v":1,"x":1}'),
        opaque(b'{"c":{"t":{}},"s":{},"v":1}'),
        opaque(b'{"c":{"t":{"0":-1}},"s":{},"v":1}'),
        opaque(b'{"c":{"t":{"0":true}},"s":{},"v":1}'),
        opaque(b'{"c":{"t":{"x":1}},"s":{},"v":1}'),
        opaque(b'{"c":{"t/..":{"0":1}},"s":{},"v":1}'),
        opaque(b'{"c":{},"s":{}, "v":1}'),
        opaque(b'{"c":{"t":{"00":1}},"s":{},"v":1}'),
        PositionToken().encode() + "=",
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        PositionToken.parse(text)


def test_tokens_are_bounded() -> None:
    with pytest.raises(InvalidArgumentError, match="limit"):
        PositionToken.parse("a" * (MAX_TOKEN_CHARS + 1))
    many = ",".join(f"p:{number}:1" for number in range(MAX_TOKEN_PARTITIONS + 1))
    with pytest.raises(InvalidArgumentError, match="limit"):
        PositionToken.parse(many)


@given(st.text(max_size=60))
def test_nothing_else_is_raised(text: str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        PositionToken.parse(text)
