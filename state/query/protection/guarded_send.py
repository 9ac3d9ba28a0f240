"""Sends answers: with headers against misuse by browsers, and a time limit for clients that don't read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from state.query.protection.traffic import Traffic

HARDENING: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer: rows must not be cached, and JSON is never a page."""
_PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_PAGE = (
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

Send = Any


class GuardedSend:
    """An ASGI `send`. Before the answer begins, `until_start` bounds the wait; afterwards each part has `stall_s`.

    `traffic` counts answers that refuse.
    """

    def __init__(self, send: Send, until_start: asyncio.Timeout, stall_s: float, traffic: Traffic) -> None:
        self._send = send
        self._until_start = until_start
        self._stall_s = stall_s
        self._traffic = traffic
        self._refused = 0
        self.started = False

    async def __call__(self, message: dict[str, Any]) -> None:
        """Sends one message.

        Raises:
            TimeoutError: if the client doesn't read it in time.
        """
        if message["type"] == "http.response.start":
            self.started = True
            self._until_start.reschedule(None)
            self._refused = message["status"] if message["status"] >= 400 else 0
            message = {**message, "headers": hardened(message.get("headers", ()))}
        elif self._refused:
            self._traffic.answered(self._refused, message.get("body", b""))
            self._refused = 0
        async with asyncio.timeout(self._stall_s):
            await self._send(message)


def hardened(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers plus those of every answer; pages also get a policy. Headers that are already there stay."""
    found = list(headers)
    names = {name.lower() for name, _ in found}
    more = [*HARDENING]
    if any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in found):
        more += [*_PAGE, (b"content-security-policy", _PAGE_POLICY)]
    return found + [(name, value) for name, value in more if name not in names]
