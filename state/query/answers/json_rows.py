"""Rows as JSON: `{"key": …, "value": …}`, the value's own bytes embedded where they are JSON, base64url where not."""

from __future__ import annotations

import base64

import orjson

from state.query.answers.row_times import TimedKey


def row_json(key: bytes, value: bytes) -> bytes:
    """One row. Numbers keep the digits that they were written with.

    A key that isn't UTF-8, or a value that isn't JSON, is given as base64url, and the row says so in `key_format` or
    `value_format`.
    """
    return b"{%b,%b}" % (key_json(key), value_json(value))


def no_row_json(key: bytes) -> bytes:
    """The entry of a missing row in a list of rows."""
    return b'{%b,"value":null}' % key_json(key)


def timed_row_json(row: TimedKey, value: bytes) -> bytes:
    """One window, its key written as `key@start` as Kafka Streams' examples do, or one session."""
    if row.end_ms is None:
        key = key_json(row.key, b"@%d" % row.start_ms)
        return b'{%b,"window":{"start_ms":%d},%b}' % (key, row.start_ms, value_json(value))
    window = b'"window":{"start_ms":%d,"end_ms":%d}' % (row.start_ms, row.end_ms)
    return b"{%b,%b,%b}" % (key_json(row.key), window, value_json(value))


def ranked_row_json(rank: int, key: bytes, score: object, value: bytes) -> bytes:
    """One row of a ranking; `score` is written as text that is a JSON number."""
    return b'{"rank":%d,%b,"score":%b,%b}' % (rank, key_json(key), str(score).encode(), value_json(value))


def key_json(key: bytes, tail: bytes = b"") -> bytes:
    """The member `key`, followed by `key_format` if needed."""
    try:
        return b'"key":%b' % orjson.dumps((key + tail).decode())
    except UnicodeDecodeError:
        return b'"key":"%b%b","key_format":"base64url"' % (base64.urlsafe_b64encode(key), tail)


def value_json(value: bytes) -> bytes:
    """The member `value`, followed by `value_format` if needed."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return b'"value":"%b","value_format":"base64url"' % base64.urlsafe_b64encode(value)
    return b'"value":%b' % value
