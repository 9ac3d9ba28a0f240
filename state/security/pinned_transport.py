"""Connections to other nodes that go to checked addresses only, and to exactly the IP address that was checked."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

import httpx2
import structlog

from state.clock import Clock
from state.security.peer_address import PeerAddress, PeerAddressError, PeerRules, Resolver, check_peer_address

log = structlog.get_logger(__name__)

_KEPT_S = 30.0


def system_resolver(host: str) -> list[str]:
    """The addresses that the system gives for a name. Raises OSError if there are none."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class _Checked:
    address: PeerAddress
    until_s: float


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Sends requests through `inner` to the IP address that the rules were checked against.

    The Host header and the name on the certificate stay those of the announced address. It follows no redirect, uses
    no proxy, and resolves a name at most every 30 seconds. Belongs to one event loop.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        rules: PeerRules,
        clock: Clock,
        resolve: Resolver = system_resolver,
    ) -> None:
        self._inner = inner
        self._rules = rules
        self._clock = clock
        self._resolve = resolve
        self._checked: _Checked | None = None
        self._of: str | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends one request.

        Raises:
            httpx2.ConnectError: if the rules forbid the address; nothing was sent.
        """
        url = request.url
        address = await self._address(f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}")
        request.url = url.copy_with(host=str(address.ip))
        if address.scheme == "https":
            request.extensions = {**request.extensions, "sni_hostname": address.host}
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()

    async def _address(self, base: str) -> PeerAddress:
        now_s = self._clock.monotonic_s()
        checked = self._checked
        if checked is not None and self._of == base and now_s < checked.until_s:
            return checked.address
        try:
            # In a thread, as the system's resolver blocks.
            address = await asyncio.to_thread(check_peer_address, base, self._rules, self._resolve)
        except PeerAddressError as error:
            log.warning("peer_address_refused", error=str(error))
            raise httpx2.ConnectError(str(error)) from error
        self._checked, self._of = _Checked(address, now_s + _KEPT_S), base
        return address
