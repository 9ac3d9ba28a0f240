"""How scans and their pages travel between nodes.

The question is a query string. The answer is a JSON head, preceded by its length as uint32, big-endian, and followed by
all keys and values one after the other. Their lengths are in the head, so nothing is escaped or searched.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from state.errors import InvalidArgumentError, SerializationError
from state.protocol.keys import decode_base64url
from state.query.answers.origin import Origin
from state.query.answers.row_times import RowTimes
from state.query.reads.pages import KeyRange, Page, PageLimits, Scan

MEDIA_TYPE = "application/octet-stream"
_HEAD = struct.Struct(">I")


def scan_query(scan: Scan, limits: PageLimits) -> str:
    """A scan as a query string; the partitions are not in it."""
    parts = [f"rows={limits.rows}", f"bytes={limits.max_bytes}", f"examined={limits.examined}"]
    for name, bound in (("start", scan.keys.start), ("stop", scan.keys.stop)):
        if bound is not None:
            parts.append(f"{name}={base64.urlsafe_b64encode(bound).decode()}")
    if scan.reverse:
        parts.append("reverse=true")
    if scan.times is not None:
        parts.append(f"times={scan.times.encode()}")
    return "&".join(parts)


def parse_scan_query(store: str, query: Mapping[str, str]) -> tuple[Scan, PageLimits]:
    """Reads what `scan_query` wrote.

    Raises:
        InvalidArgumentError: if it can't be read.
    """
    start, stop = (
        None if (text := query.get(name)) is None else decode_base64url(text, "a bound") for name in ("start", "stop")
    )
    times = query.get("times")
    scan = Scan(
        store,
        KeyRange(start, stop),
        reverse=query.get("reverse") == "true",
        times=None if times is None else RowTimes.decode(times),
    )
    return scan, PageLimits(*(count_in(query, name) for name in ("rows", "bytes", "examined")))


def count_in(query: Mapping[str, str], name: str) -> int:
    """A positive number among the parameters of a request between nodes. Raises InvalidArgumentError."""
    text = query.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        msg = f"{name} must be a positive number"
        raise InvalidArgumentError(msg)
    return int(text)


def encode_page(page: Page, origins: Iterable[Origin]) -> bytes:
    """A page and where it comes from."""
    sizes = [len(part) for row in page.rows for part in row]
    head = orjson.dumps(
        {
            "reached": None if page.reached is None else base64.urlsafe_b64encode(page.reached).decode(),
            "origins": [origin.as_json() for origin in origins],
            "sizes": sizes,
        }
    )
    return b"".join((_HEAD.pack(len(head)), head, *(part for row in page.rows for part in row)))


def decode_page(body: bytes) -> tuple[Page, list[Origin]]:
    """Reads what `encode_page` wrote.

    Raises:
        SerializationError: if it can't be read: the other node has another version.
    """
    try:
        (length,) = _HEAD.unpack_from(body)
        at = _HEAD.size + length
        head: dict[str, Any] = orjson.loads(body[_HEAD.size : at])
        parts: list[bytes] = []
        for size in head["sizes"]:
            parts.append(body[at : at + size])
            at += size
        if at != len(body):
            raise ValueError("lengths don't add up")
        reached = None if head["reached"] is None else decode_base64url(head["reached"], "a key")
        origins = [Origin.of_json(found) for found in head["origins"]]
        return Page(list(zip(parts[::2], parts[1::2], strict=True)), reached), origins
    except (struct.error, KeyError, TypeError, ValueError, InvalidArgumentError) as error:
        raise SerializationError("another node's page can't be read: let all nodes have one version") from error
