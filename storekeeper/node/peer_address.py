"""Which addresses a node may send requests to, and connections that go to these only.

Announcements of other nodes are untrusted input. An announced address is parsed and checked when it is heard. For a
connection its host is resolved once, the result is checked, and the connection goes to exactly that IP address: if the
name resolves differently a moment later, that has no effect.

A node that hears an announcement resolves nothing: failing name servers don't change the members of the cluster.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
import structlog

from storekeeper.clock import Clock
from storekeeper.errors import ConfigurationError, StateError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str], Sequence[str]]
"""Gives the IP addresses of a host name; raises OSError if there are none."""

_LONGEST = 300
_FORM = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):([1-9][0-9]{0,4})/?")
_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_LOOKS_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?")
_LOWEST_PORT = 1024
_FOREIGN_PORTS = frozenset(
    {2181, 2375, 2376, 2379, 2380, 3306, 3389, 5432, 5672, 5984, 6379, 6443, 7001, 8500, 9000, 9042, 9092, 9200, 9300}
    | {10250, 10255, 11211, 15672, 27017, 50070}
)
"""Where databases, brokers and control planes usually listen: no node does."""


class PeerAddressError(StateError):
    """An announced address that this node must not connect to. The message says which rule it breaks."""


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """A checked address: connect to `ip`; `host` is for the Host header and the certificate."""

    scheme: str
    host: str
    ip: IPAddress
    port: int


@dataclass(frozen=True, slots=True)
class PeerRules:
    """Where nodes may be.

    Attributes:
        networks: an address must be in one of them.
        hosts: names that may be resolved, in lower case. What they resolve to must be in the networks, too.
        tls_required: addresses beyond loopback need https.
    """

    networks: tuple[Network, ...]
    hosts: frozenset[str] = frozenset()
    tls_required: bool = True

    @classmethod
    def parse(cls, text: str) -> PeerRules:
        """Reads `127.0.0.0/8,10.1.0.0/16,node-a.example.org`: networks, and names of hosts.

        Raises:
            ConfigurationError: if a part is neither, or a network is so wide that it allows everything.
        """
        networks: list[Network] = []
        hosts: set[str] = set()
        for part in filter(None, (part.strip().lower() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(part))
            except ValueError as error:
                if "/" in part or ":" in part or _LOOKS_NUMERIC.fullmatch(part) or not _NAME.fullmatch(part):
                    msg = f"{part!r} is neither a network such as 10.1.0.0/16 nor the name of a host"
                    raise ConfigurationError(msg) from error
                hosts.add(part)
        if any(network.prefixlen == 0 for network in networks):
            raise ConfigurationError(
                "a network of every address is not a rule: name the networks that the nodes are in"
            )
        return cls(tuple(networks), frozenset(hosts))


def check_peer_address(address: str, rules: PeerRules, resolve: Resolver) -> PeerAddress:
    """Parses an address, resolves its host, and checks every address that it resolves to. Does no other I/O.

    Raises:
        PeerAddressError: if it is not `http(s)://host:port`, or leads anywhere that the rules don't allow.
    """
    scheme, host, ip, port = _announced(address, rules)
    if ip is None:
        shown = repr(address)
        ip, *others = _resolved(host, resolve, shown)
        _check_ips([ip, *others], scheme, rules, shown)
    return PeerAddress(scheme, host, ip, port)


def check_announced_address(address: str, rules: PeerRules) -> None:
    """Checks an address as far as that needs no I/O: of a name, that the rules list it.

    Raises as `check_peer_address` does.
    """
    _announced(address, rules)


def _announced(address: str, rules: PeerRules) -> tuple[str, str, IPAddress | None, int]:
    """Scheme, host, IP address and port; no IP address if the host is a name that may be resolved."""
    shown = repr(address[:_LONGEST])
    match = _FORM.fullmatch(address) if len(address) <= _LONGEST else None
    if match is None:
        raise _refused(shown, "it is not http://host:port or https://host:port")
    scheme, host, port = match[1], match[2].strip("[]").lower(), int(match[3])
    if urlsplit(address).hostname != host or not _LOWEST_PORT <= port <= 65535 or port in _FOREIGN_PORTS:
        raise _refused(shown, "its port is not one that a node would use")
    ip = _literal(host, rules, shown)
    if ip is not None:
        _check_ips([ip], scheme, rules, shown)
    return scheme, host, ip, port


def _literal(host: str, rules: PeerRules, shown: str) -> IPAddress | None:
    """The IP address that a host is; None for a name that may be resolved."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    # inet_aton reads 2130706433, 0x7f.1 and 0177.0.0.1 as addresses: such forms only hide an address.
    if ":" in host or _LOOKS_NUMERIC.fullmatch(host) or not _NAME.fullmatch(host):
        raise _refused(shown, "its host is neither a plain IP address nor a name")
    if host not in rules.hosts:
        raise _refused(shown, "its host is not among those that `peer_networks` names")
    return None


def _resolved(host: str, resolve: Resolver, shown: str) -> list[IPAddress]:
    try:
        resolved = [ipaddress.ip_address(address.partition("%")[0]) for address in resolve(host)]
    except (OSError, ValueError) as error:
        raise _refused(shown, "its host can't be resolved") from error
    if not resolved:
        raise _refused(shown, "its host has no address")
    return resolved


def _check_ips(ips: Sequence[IPAddress], scheme: str, rules: PeerRules, shown: str) -> None:
    for ip in ips:
        _check_ip(ip, rules, shown)
    if rules.tls_required and scheme != "https" and not all(ip.is_loopback for ip in ips):
        raise _refused(shown, "beyond loopback it must be https")


def _check_ip(ip: IPAddress, rules: PeerRules, shown: str) -> None:
    inner = _embedded(ip)
    if inner is not None:
        raise _refused(shown, f"it hides {inner} in an IPv6 address")
    if ip.is_unspecified or ip.is_multicast or ip.is_link_local or (ip.is_reserved and not ip.is_loopback):
        raise _refused(shown, f"{ip} is not an address of a single node")
    if not any(ip in network for network in rules.networks if network.version == ip.version):
        raise _refused(shown, f"{ip} is in no network of `peer_networks`")


def _embedded(ip: IPAddress) -> ipaddress.IPv4Address | None:
    if not isinstance(ip, ipaddress.IPv6Address):
        return None
    teredo = ip.teredo[1] if ip.teredo else None
    translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
    compatible = ipaddress.IPv4Address(int(ip)) if 1 < int(ip) < 1 << 32 else None
    return ip.ipv4_mapped or ip.sixtofour or teredo or translated or compatible


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _refused(shown: str, reason: str) -> PeerAddressError:
    return PeerAddressError(f"no request is sent to the peer address {shown}: {reason}")


log = structlog.get_logger(__name__)

_KEPT_S = 30.0


def system_resolver(host: str) -> list[str]:
    """The addresses that the system gives for a name. Raises OSError if there are none."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


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
