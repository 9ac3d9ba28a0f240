"""Scans over all partitions of a store, page by page: each partition is asked at a holder, the rows merged in order.

Between nodes, the question is a query string. The answer is a JSON head, preceded by its length as uint32, big-endian,
and followed by all keys and values one after the other. Their lengths are in the head, so nothing is escaped.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import orjson

from state.errors import InvalidArgumentError, SerializationError
from state.protocol.keys import decode_base64url
from state.query.answers.json_rows import RowTimes
from state.query.answers.origins import Origin
from state.query.forwarding import PeerRequest
from state.query.reads.freshness_gate import Asked
from state.query.reads.gather import Gathered, Gatherer, count_in
from state.query.reads.pages import KeyRange, PageLimits, RowPage, Scan, merge_pages, read_page
from state.query.reads.turns import Steps
from state.replicas.replica import Replica

INTERNAL_PATH = "/internal/scan/"
_HEAD = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """The first page of a scan."""

    scan: Scan
    limits: PageLimits

    @property
    def store(self) -> str:
        """The store."""
        return self.scan.store

    def request(self, _partitions: Sequence[int], rest: str) -> PeerRequest:
        """As `parse` reads it."""
        scan, limits = self.scan, self.limits
        parts = [f"rows={limits.rows}", f"bytes={limits.max_bytes}", f"examined={limits.examined}"]
        for name, bound in (("start", scan.keys.start), ("stop", scan.keys.stop)):
            if bound is not None:
                parts.append(f"{name}={base64.urlsafe_b64encode(bound).decode()}")
        if scan.reverse:
            parts.append("reverse=true")
        if scan.times is not None:
            parts.append(f"times={scan.times.encode()}")
        return PeerRequest(f"{INTERNAL_PATH}{self.store}?{'&'.join(parts)}&{rest}")

    @classmethod
    def parse(cls, store: str, query: Mapping[str, str], most: PageLimits) -> Self:
        """Reads the parameters that `request` wrote; the limits are at most those of this node.

        Raises:
            InvalidArgumentError: if they can't be read.
        """
        start, stop = (
            None if (text := query.get(name)) is None else decode_base64url(text, "a bound")
            for name in ("start", "stop")
        )
        times = query.get("times")
        scan = Scan(
            store,
            KeyRange(start, stop),
            reverse=query.get("reverse") == "true",
            times=None if times is None else RowTimes.decode(times),
        )
        limits = PageLimits(
            min(count_in(query, "rows"), most.rows),
            min(count_in(query, "bytes"), most.max_bytes),
            min(count_in(query, "examined"), most.examined),
        )
        return cls(scan, limits)

    def local(self, replicas: Sequence[Replica]) -> Steps[RowPage]:
        """Reads it."""
        return read_page(replicas, self.scan, self.limits)

    def encode(self, page: RowPage, origins: Iterable[Origin]) -> bytes:
        """As `decode` reads it."""
        sizes = [len(part) for row in page.rows for part in row]
        head = orjson.dumps(
            {
                "reached": None if page.reached is None else base64.urlsafe_b64encode(page.reached).decode(),
                "origins": [origin.as_json() for origin in origins],
                "sizes": sizes,
            }
        )
        return b"".join((_HEAD.pack(len(head)), head, *(part for row in page.rows for part in row)))

    def decode(self, body: bytes) -> tuple[RowPage, list[Origin]]:
        """Reads another node's page.

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
            return RowPage(list(zip(parts[::2], parts[1::2], strict=True)), reached), origins
        except (struct.error, KeyError, TypeError, ValueError, InvalidArgumentError) as error:
            raise SerializationError("another node's page can't be read: let all nodes have one version") from error


async def scan_page(
    gatherer: Gatherer, question: PageQuestion, asked: Asked, partitions: Iterable[int] | None = None
) -> tuple[RowPage, Gathered[RowPage]]:
    """The first rows of a scan from all partitions or some, wherever they are. Raises as `Gatherer.complete`."""
    gatherer.check_free()
    found = await gatherer.complete(question, asked, partitions)
    await gatherer.turns.take()
    return merge_pages(found.found, question.limits, reverse=question.scan.reverse), found
