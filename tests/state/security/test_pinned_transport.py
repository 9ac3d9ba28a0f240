"""Connections that go where the check looked, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx2
import pytest

from state.clock import ManualClock
from state.security.peer_address import PeerRules
from state.security.pinned_transport import PinnedTransport
from tests.state.security.test_peer_address import CLUSTER, FORBIDDEN, LOOPBACK


class Recording(httpx2.AsyncBaseTransport):
    """Takes requests instead of a network."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200)


async def get(inner: Recording, url: str, rules: PeerRules, resolved: list[str], times: int = 1) -> list[str]:
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return [resolved[min(len(asked), len(resolved)) - 1]]

    transport = PinnedTransport(inner, rules, ManualClock(), resolve)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False) as client:
        for _ in range(times):
            await client.get(url + "/state/stores")
    return asked


def test_it_connects_to_the_ip_that_was_checked_and_names_the_host() -> None:
    inner = Recording()
    asked = asyncio.run(get(inner, "https://node-a.example.org:18101", CLUSTER, ["10.1.0.7", "169.254.169.254"], 3))
    assert asked == ["node-a.example.org"]
    assert {request.url.host for request in inner.requests} == {"10.1.0.7"}
    assert {request.headers["host"] for request in inner.requests} == {"node-a.example.org:18101"}
    assert {request.extensions["sni_hostname"] for request in inner.requests} == {"node-a.example.org"}


@pytest.mark.parametrize("address", FORBIDDEN)
def test_nothing_is_sent_to_a_forbidden_address(address: str) -> None:
    inner = Recording()
    try:
        asyncio.run(get(inner, address, LOOPBACK, ["127.0.0.1"]))
    except httpx2.HTTPError:
        pass
    except httpx2.InvalidURL:
        pass
    assert inner.requests == []
