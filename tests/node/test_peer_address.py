"""Addresses that nodes announce."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

import httpx2
import pytest

from storekeeper.clock import ManualClock
from storekeeper.errors import ConfigurationError
from storekeeper.node.peer_address import (
    PeerAddressError,
    PeerRules,
    PinnedTransport,
    check_announced_address,
    check_peer_address,
)

LOOPBACK = PeerRules.parse("127.0.0.0/8,::1/128")
CLUSTER = PeerRules.parse("10.1.0.0/16, fd00:1::/32, node-a.example.org, moving.example.org")
NAMES = {
    "node-a.example.org": ["10.1.0.7"],
    "moving.example.org": ["10.1.0.8", "169.254.169.254"],
    "inside.example.org": ["10.1.0.9"],
    "localtest.me": ["127.0.0.1"],
}

NOT_ADDRESSES = [
    "",
    "http://",
    "http://127.0.0.1",
    "http://127.0.0.1:",
    "http://127.0.0.1:0",
    "http://127.0.0.1:080",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:18101/path",
    "http://127.0.0.1:18101?x=1",
    "http://127.0.0.1:18101#x",
    "http://127.0.0.1:18101\r\nHost: x",
    "http://127.0.0.1:18101 ",
    " http://127.0.0.1:18101",
    "http://127.0.0.1\t:18101",
    "//127.0.0.1:18101",
    "127.0.0.1:18101",
    "ftp://127.0.0.1:18101",
    "file:///etc/passwd",
    "gopher://127.0.0.1:18101",
    "HTTP+unix://127.0.0.1:18101",
    "http://user@127.0.0.1:18101",
    "http://user:word@127.0.0.1:18101",
    "http://evil@peer:18101",
    "http://127.0.0.1:18101@evil.example.org:18101",
    "http://127.0.0.1\\@evil.example.org:18101",
    "http://127.0.0.1%00.example.org:18101",
    "http://127.0.0.1%2f:18101",
    "http://[::1%25lo]:18101",
    "http://\uff11\uff12\uff17.0.0.1:18101",
    "http://127\u30020\u30020\u30021:18101",
    "http://\u24dbocalhost:18101",
    "http://*:18101",
    "http://" + "a" * 400 + ":18101",
]

FORBIDDEN = [
    "http://127.0.0.1:6379",
    "http://127.0.0.1:22",
    "http://127.0.0.1:9092",
    "http://127.0.0.1:80",
    "http://169.254.169.254:18101",
    "https://169.254.169.254:18101",
    "http://[::ffff:169.254.169.254]:18101",
    "http://[::ffff:127.0.0.1]:18101",
    "http://[::ffff:7f00:1]:18101",
    "http://[::127.0.0.1]:18101",
    "http://[64:ff9b::a9fe:a9fe]:18101",
    "http://[2002:7f00:1::]:18101",
    "http://[fe80::1]:18101",
    "http://[fd00:ec2::254]:18101",
    "http://[::]:18101",
    "http://0.0.0.0:18101",
    "http://0:18101",
    "http://2130706433:18101",
    "http://2852039166:18101",
    "http://0x7f000001:18101",
    "http://0x7f.1:18101",
    "http://017700000001:18101",
    "http://0177.0.0.1:18101",
    "http://127.1:18101",
    "http://127.0.0.1.:18101",
    "http://255.255.255.255:18101",
    "http://224.0.0.1:18101",
    "http://10.0.0.1:18101",
    "http://192.168.0.1:18101",
    "http://100.100.100.200:18101",
    "http://8.8.8.8:18101",
    "http://localhost:18101",
    "http://localtest.me:18101",
    "http://metadata.google.internal:18101",
    "http://127.0.0.1.nip.io:18101",
    "http://node-a.example.org:18101",
    "http://-a.example.org:18101",
]


def resolve(host: str) -> Sequence[str]:
    if host not in NAMES:
        raise OSError(host)
    return NAMES[host]


@pytest.mark.parametrize("address", NOT_ADDRESSES + FORBIDDEN)
def test_is_refused(address: str) -> None:
    with pytest.raises(PeerAddressError):
        check_peer_address(address, LOOPBACK, resolve)
    with pytest.raises(PeerAddressError):
        check_announced_address(address, LOOPBACK)


@pytest.mark.parametrize(
    "address",
    [
        *NOT_ADDRESSES,
        *FORBIDDEN,
        "https://127.0.0.1:18101",
        "https://moving.example.org:18101",
        "https://inside.example.org:18101",
        "http://10.1.0.7:18101",
        "http://node-a.example.org:18101",
    ],
)
def test_a_cluster_of_several_machines_refuses_it_too(address: str) -> None:
    with pytest.raises(PeerAddressError):
        check_peer_address(address, CLUSTER, resolve)


@pytest.mark.parametrize(
    ("address", "rules", "ip"),
    [
        ("http://127.0.0.1:18101", LOOPBACK, "127.0.0.1"),
        ("http://127.8.9.10:18101/", LOOPBACK, "127.8.9.10"),
        ("http://[::1]:18101", LOOPBACK, "::1"),
        ("https://10.1.2.3:18101", CLUSTER, "10.1.2.3"),
        ("https://[fd00:1::5]:18101", CLUSTER, "fd00:1::5"),
        ("https://Node-A.example.org:18101", CLUSTER, "10.1.0.7"),
    ],
)
def test_is_allowed(address: str, rules: PeerRules, ip: str) -> None:
    found = check_peer_address(address, rules, resolve)
    assert (found.ip, found.port) == (ipaddress.ip_address(ip), 18101)


@pytest.mark.parametrize("host", ["node-a", "moving"])
def test_a_listed_name_may_be_announced_whatever_it_resolves_to(host: str) -> None:
    check_announced_address(f"https://{host}.example.org:18101", CLUSTER)


def test_a_name_is_resolved_once() -> None:
    answers = iter([["10.1.0.7"], ["169.254.169.254"]])
    found = check_peer_address("https://node-a.example.org:18101", CLUSTER, lambda _host: next(answers))
    assert str(found.ip) == "10.1.0.7"
    assert next(answers) == ["169.254.169.254"], "the second answer was never asked for"


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "10.1.0.0/33", "10.1.2.3/16", "a_b", "http://x", "1.2.3"])
def test_rules_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        PeerRules.parse(text)


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
