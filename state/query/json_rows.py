"""Rows as JSON: `{"key": …, "value": …}`, the value's own bytes embedded where they are JSON, base64url where not."""

from __future__ import annotations

import base64
import binascii

import orjson

from state.errors import InvalidArgumentError


def row_json(key: bytes, value: bytes) -> bytes:
    """One row. Numbers keep the digits that they were written with.

    A key that isn't UTF-8, or a value that isn't JSON, is given as base64url, and the row says so in `key_format` or
    `value_format`.
    """
    try:
        orjson.loads(value)
        tail = b',"value":%b}' % value
    except orjson.JSONDecodeError:
        tail = b',"value":"%b","value_format":"base64url"}' % base64.urlsafe_b64encode(value)
    try:
        return b'{"key":%b%b' % (orjson.dumps(key.decode()), tail)
    except UnicodeDecodeError:
        return b'{"key":"%b","key_format":"base64url"%b' % (base64.urlsafe_b64encode(key), tail)


def decode_base64url(text: str | bytes, what: str) -> bytes:
    """Reads base64url, with or without padding.

    Raises:
        InvalidArgumentError: if it isn't; the message names `what`.
    """
    data = text.encode() if isinstance(text, str) else text
    try:
        if b"+" in data or b"/" in data:
            raise ValueError("the other alphabet")
        return base64.b64decode(data + b"=" * (-len(data) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        msg = f"{what} is not base64url"
        raise InvalidArgumentError(msg) from error
