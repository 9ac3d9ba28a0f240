"""Everything that guards one node, made from its settings before it listens."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2

from storekeeper.clock import Clock
from storekeeper.loopback import is_loopback
from storekeeper.node.peer_address import PeerRules, PinnedTransport
from storekeeper.node.security.access import Authenticator, HostRule
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.exposure import Tls, protection
from storekeeper.node.security.hop import HopSigner, HopVerifier
from storekeeper.node.settings import NodeSettings

_POOL = httpx2.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=30)
"""Idle connections are given up before the other node's idle time-out ends them."""


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """Secrets, rules and files of a node. `hosts` is None beyond loopback, where certificates identify the node."""

    secret: bytes
    tls: Tls | None
    authenticator: Authenticator
    sign: HopSigner
    hops: HopVerifier
    hosts: HostRule | None
    peers: PeerRules
    clock: Clock

    @classmethod
    def of(cls, node: str, settings: NodeSettings, clock: Clock) -> NodeSecurity:
        """Reads secrets, tokens and certificates.

        Raises:
            ConfigurationError: if the node must not listen with these settings.
        """
        tls, authenticator = protection(settings, clock)
        secret = load_cluster_secret(settings.cluster_secret_path)
        return cls(
            secret=secret,
            tls=tls,
            authenticator=authenticator,
            sign=HopSigner(node, secret, clock),
            hops=HopVerifier(node, secret, clock),
            hosts=HostRule(settings.allowed_hosts.split(",")) if is_loopback(settings.listen_host) else None,
            peers=PeerRules.parse(settings.peer_networks),
            clock=clock,
        )

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A new pool of connections to one other node."""
        if self.tls is None:
            inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=_POOL)
        else:
            inner = httpx2.AsyncHTTPTransport(verify=self.tls.client_context(), trust_env=False, limits=_POOL)
        return PinnedTransport(inner, self.peers, self.clock)
