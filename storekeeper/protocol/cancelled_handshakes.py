"""Closes the connection of a TLS handshake that was cancelled.

httpcore closes it only after an error (`except Exception` in its `start_tls`), so each request that is given up during
a handshake would leave an open socket until the garbage collector runs. Its trace extension hands the connection out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClosesCancelledHandshake:
    """The `trace` extension of one request. For one event loop."""

    def __init__(self) -> None:
        self._connection: Any = None

    async def __call__(self, event: str, details: Mapping[str, Any]) -> None:
        """Takes each event of the request, with what httpcore says about it."""
        if event == "connection.connect_tcp.complete":
            self._connection = details["return_value"]
        elif event == "connection.start_tls.failed":
            await self._connection.aclose()


def handshake_extensions(address: str) -> dict[str, Any]:
    """The extensions of a request to an address; none without TLS."""
    return {"trace": ClosesCancelledHandshake()} if address.startswith("https:") else {}
