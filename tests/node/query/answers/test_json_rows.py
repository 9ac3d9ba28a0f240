"""Rows as JSON."""

from __future__ import annotations

import json

import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.query.answers.json_rows import row_json
from storekeeper.protocol.keys import decode_base64url


@pytest.mark.parametrize("value", [b'{"a": 1.2300}', b"[]", b'"text"', b"null", b"12", b'{"n": 12345678901234567890}'])
def test_json_is_embedded_as_it_is(value: bytes) -> None:
    assert row_json(b"k", value) == b'{"key":"k","value":%b}' % value


@pytest.mark.parametrize("value", [b"", b"{", b"NaN", b"\xff\xfe", b'{"a": 1} x', b'"}, {"key": "forged"'])
def test_what_is_no_json_is_told_as_base64url(value: bytes) -> None:
    row = json.loads(row_json(b"k", value))
    assert row["value_format"] == "base64url"
    assert decode_base64url(row["value"], "x") == value


def test_keys_are_text_where_they_are() -> None:
    assert json.loads(row_json('k"ä'.encode(), b"1")) == {"key": 'k"ä', "value": 1}
    assert json.loads(row_json(b"\xff", b"1")) == {"key": "_w==", "key_format": "base64url", "value": 1}


@pytest.mark.parametrize("text", ["*", "a", "ab=c", "a+/b", "ä"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cursor"):
        decode_base64url(text, "cursor")
