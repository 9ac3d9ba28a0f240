"""Rows as JSON: `{"key": …, "value": …}`, the value's own bytes embedded where they are JSON, base64url where not.

Rows of windows and sessions have times in their keys: `RowTimes` says which of them are wanted.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import StrEnum

import orjson

from storekeeper.serdes.keys.row_keys import LAYOUTS
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS


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


class RowLayout(StrEnum):
    """How a row key encodes its times."""

    WINDOW = "window"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class TimedKey:
    """The parts of a row key. `end_ms` is None for a window: its size isn't in the key."""

    key: bytes
    start_ms: int
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Bounds on start and end of a row, all inclusive, epoch milliseconds. Windows have no end."""

    layout: RowLayout
    starts_from_ms: int = 0
    starts_to_ms: int = MAX_TIMESTAMP_MS
    ends_from_ms: int = 0
    ends_to_ms: int = MAX_TIMESTAMP_MS

    def accepts(self, row_key: bytes) -> bool:
        """Whether a row is wanted; one whose key has another layout never is."""
        timed = timed_key(self.layout, row_key)
        if timed is None or not self.starts_from_ms <= timed.start_ms <= self.starts_to_ms:
            return False
        return timed.end_ms is None or self.ends_from_ms <= timed.end_ms <= self.ends_to_ms


def timed_key(layout: RowLayout, row_key: bytes) -> TimedKey | None:
    """The parts of a row key; None if it has another layout."""
    split = LAYOUTS[layout].split(row_key)
    return None if split is None else TimedKey(*split)
