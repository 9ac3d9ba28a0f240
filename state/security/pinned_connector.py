"""Where connections to another node go: the IP address that was checked, and the name its certificate must bear."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from state.security.peer_address import PeerRules, Resolver, check_peer_address
from state.security.pinned_transport import system_resolver


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a checked address leads. `tls` is None for plain HTTP; `server_name` is what the certificate must name."""

    ip: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str | None


class PinnedConnector:
    """Checks an address anew before each connection. `tls` is for https; None takes what the system trusts."""

    def __init__(self, rules: PeerRules, tls: ssl.SSLContext | None, resolve: Resolver = system_resolver) -> None:
        self._rules = rules
        self._tls = tls
        self._resolve = resolve

    async def __call__(self, address: str) -> Endpoint:
        """Where to connect to.

        Raises:
            PeerAddressError: if the rules forbid the address.
        """
        # In a thread, as the system's resolver blocks.
        found = await asyncio.to_thread(check_peer_address, address, self._rules, self._resolve)
        if found.scheme == "http":
            return Endpoint(str(found.ip), found.port, None, None)
        return Endpoint(str(found.ip), found.port, self._tls or ssl.create_default_context(), found.host)
