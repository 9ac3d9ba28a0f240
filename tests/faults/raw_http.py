"""HTTP as an attacker writes it: bytes on a socket, whatever they say."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What came back. `status` is None if the connection was closed without an answer."""

    status: int | None
    head: bytes
    body: bytes


class RawConnection:
    """One connection to a node. Each request waits for its whole answer.

    Attributes:
        rested_s: the longest that the node may have waited for the last request: since the one before it began, or the
            connection.
    """

    def __init__(self, address: str, timeout_s: float = 20) -> None:
        self.rested_s = 0.0
        self._began_s = time.monotonic()
        parts = urlsplit(address)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=timeout_s)
        self.host = parts.netloc.encode()

    def get(self, target: bytes, *headers: bytes) -> RawAnswer:
        """A GET of exactly these bytes."""
        lines = (b"GET " + target + b" HTTP/1.1", b"Host: " + self.host, *headers)
        return self.send(b"\r\n".join(lines) + b"\r\n\r\n")

    def send(self, *parts: bytes) -> RawAnswer:
        """Sends bytes and reads one answer."""
        return self.stream(parts)

    def stream(self, parts: Iterable[bytes]) -> RawAnswer:
        """The same for bytes that are made as they are sent: ends early when the other side has closed."""
        before_s, self._began_s = self._began_s, time.monotonic()
        try:
            for part in parts:
                self.socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.rested_s = time.monotonic() - before_s
        return self.read()

    def read(self) -> RawAnswer:
        """One answer."""
        data = b""
        try:
            while b"\r\n\r\n" not in data:
                data += self._more()
            head, _, body = data.partition(b"\r\n\r\n")
            announced = _LENGTH.search(head)
            while announced is not None and len(body) < int(announced[1]):
                body += self._more()
        except ConnectionError:
            head, _, body = data.partition(b"\r\n\r\n")
        found = _STATUS.match(head)
        return RawAnswer(int(found[1]) if found else None, head, body)

    def close(self) -> None:
        """Closes it."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _more(self) -> bytes:
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionResetError("closed")
        return data
