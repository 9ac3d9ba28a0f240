"""Counts a node's connections and refused requests, for its metrics."""

from __future__ import annotations

import re

_PROBLEM = re.compile(rb'\{"type":"urn:storekeeper:problem:([a-z-]{1,40})"')
_REASONS = 64
_OTHER = "other"
CONNECTION_REFUSALS = (
    *("connections", "connections-of-client"),
    *("handshake", "malformed", "headers-too-large", "too-slow", "too-many-pipelined"),
)
"""Why connections are refused or cut off."""


class Traffic:
    """Belongs to one event loop; any thread reads. `connections` are open now. `refused` counts requests and
    connections by reason: a problem's type, or a reason from above.
    """

    def __init__(self) -> None:
        self.connections = 0
        self.refused: dict[str, int] = {}

    def refuse(self, reason: str) -> None:
        """Counts one refusal."""
        if reason not in self.refused and len(self.refused) >= _REASONS:
            reason = _OTHER
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def answered(self, status: int, body: bytes) -> None:
        """Counts an answer if it is a refusal; "not found" is a regular answer."""
        if status >= 400 and status != 404:
            match = _PROBLEM.match(body)
            self.refuse(_OTHER if match is None else match[1].decode())
